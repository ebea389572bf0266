package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// docMarker names the part of a document that a run rewrites.
const docMarker = "load"

// deliver prints the summary and writes all results into the folder, and into the document where there is one. It
// returns errFailed when a check failed.
func deliver(r report, o options, out io.Writer) error {
	var summary bytes.Buffer
	r.write(&summary)
	samples, err := csvOf(r.samples)
	if err != nil {
		return err
	}
	results, err := json.MarshalIndent(map[string]any{
		"machine": r.machine, "figures": summarize(r), "checks": r.checks, "errors": r.totals.errors,
		"idle_before": r.baseline, "samples": r.samples, "idle_after": r.after,
	}, "", " ")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"load.json": results, "samples.csv": samples, "summary.txt": summary.Bytes()} {
		if err := os.WriteFile(filepath.Join(o.out, name), content, 0o600); err != nil {
			return err
		}
	}
	if err := drawCharts(o.out, r.samples); err != nil {
		return err
	}
	if o.doc != "" {
		if err := rewrite(o, r, summary.String()); err != nil {
			return err
		}
	}
	if _, err := out.Write(summary.Bytes()); err != nil {
		return err
	}
	if r.failed() {
		return errFailed
	}
	return nil
}

// rewrite puts the run into the document, and its charts into the folder charts beside it.
func rewrite(o options, r report, summary string) error {
	folder := filepath.Join(filepath.Dir(o.doc), "charts")
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a folder of the repository
		return err
	}
	if err := drawCharts(folder, r.samples); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`make load DURATION=%s CHATS=%d`:\n\n```\n%s```\n", shortest(o.duration), o.chats, summary)
	for _, page := range charts(r.samples) {
		fmt.Fprintf(&b, "\n![%s](charts/%s.svg)\n", page.alt, page.name)
	}
	return kit.ReplaceInDocument(o.doc, docMarker, b.String())
}

// shortest formats a duration without zero units: 5m, not 5m0s.
func shortest(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// csvOf has one line per sample: all series of all charts.
func csvOf(samples series) ([]byte, error) {
	rows := make([][]string, len(samples)+1)
	rows[0] = []string{"seconds"}
	for n, s := range samples {
		rows[n+1] = []string{strconv.FormatFloat(s.At.Seconds(), 'f', 1, 64)}
	}
	for _, page := range charts(samples) {
		for _, panel := range page.panels {
			for _, line := range panel.Lines {
				rows[0] = append(rows[0], fmt.Sprintf("%s: %s (%s)", panel.Title, line.Name, panel.Unit))
				for n, point := range line.Points {
					rows[n+1] = append(rows[n+1], strconv.FormatFloat(point.Y, 'g', 6, 64))
				}
			}
		}
	}
	var text bytes.Buffer
	err := csv.NewWriter(&text).WriteAll(rows)
	return text.Bytes(), err
}

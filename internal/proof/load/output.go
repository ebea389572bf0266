package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
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
	errs := []error{
		r.write(&summary),
		writeJSON(filepath.Join(o.out, "load.json"), r),
		writeCSV(filepath.Join(o.out, "samples.csv"), r.samples),
		drawCharts(o.out, r.samples),
		os.WriteFile(filepath.Join(o.out, "summary.txt"), summary.Bytes(), 0o600),
	}
	if o.doc != "" {
		errs = append(errs, rewrite(o, r, summary.String()))
	}
	_, err := out.Write(summary.Bytes())
	if errs = append(errs, err); r.failed() {
		errs = append(errs, errFailed)
	}
	return errors.Join(errs...)
}

// rewrite puts the run into the document, and its charts into the folder charts beside it.
func rewrite(o options, r report, summary string) error {
	charts := filepath.Join(filepath.Dir(o.doc), "charts")
	if err := os.MkdirAll(charts, 0o755); err != nil { //nolint:gosec // a folder of the repository
		return err
	}
	if err := drawCharts(charts, r.samples); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`make load DURATION=%s CHATS=%d`:\n\n```\n%s```\n", shortest(o.duration), o.chats, summary)
	for _, page := range pages {
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

func writeJSON(path string, r report) error {
	text, err := json.MarshalIndent(map[string]any{
		"machine": r.machine, "figures": summarize(r), "checks": r.checks, "errors": r.totals.errors,
		"idle_before": r.baseline, "samples": r.samples, "idle_after": r.after,
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// writeCSV writes one line per sample: all series of all charts.
func writeCSV(path string, samples []sample) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	table := csv.NewWriter(file)
	head, columns := []string{"seconds"}, [][]point{}
	for _, page := range pages {
		for _, panel := range page.panels {
			for _, line := range panel.lines(samples) {
				head = append(head, fmt.Sprintf("%s: %s (%s)", panel.title, line.name, panel.unit))
				columns = append(columns, line.points)
			}
		}
	}
	_ = table.Write(head) // Error tells
	for n, s := range samples {
		row := []string{strconv.FormatFloat(s.At.Seconds(), 'f', 1, 64)}
		for _, column := range columns {
			row = append(row, strconv.FormatFloat(column[n].value, 'g', 6, 64))
		}
		_ = table.Write(row)
	}
	table.Flush()
	return errors.Join(table.Error(), file.Close())
}

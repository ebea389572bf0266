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
)

// Between these lines of a document stands what a run found. All else in it is left as it is.
const (
	beginMarker = "<!-- load:begin -->"
	endMarker   = "<!-- load:end -->"
)

// deliver prints the summary and leaves everything in the folder, and in the document where there is one. Its error is
// errFailed when a check failed.
func deliver(r report, o options, out io.Writer) error {
	var summary bytes.Buffer
	errs := []error{
		r.write(&summary),
		writeJSON(filepath.Join(o.out, "load.json"), r),
		writeCSV(filepath.Join(o.out, "samples.csv"), r.samples),
		drawCharts(o.out, r.samples, ".svg", ".png"),
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

// checkMarkers finds out before the run whether its figures will have a place.
func checkMarkers(document string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	begin, end := bytes.Index(text, []byte(beginMarker)), bytes.Index(text, []byte(endMarker))
	if begin < 0 || end < begin {
		return fmt.Errorf("%s has no lines %s and %s", document, beginMarker, endMarker)
	}
	return nil
}

// rewrite puts the run into the document, and its charts into the folder charts beside it.
func rewrite(o options, r report, summary string) error {
	charts := filepath.Join(filepath.Dir(o.doc), "charts")
	if err := os.MkdirAll(charts, 0o755); err != nil { //nolint:gosec // a folder of the repository
		return err
	}
	if err := drawCharts(charts, r.samples, ".svg"); err != nil {
		return err
	}
	text, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), beginMarker)
	_, after, closed := strings.Cut(rest, endMarker)
	if !found || !closed {
		return checkMarkers(o.doc)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n`make load DURATION=%s CHATS=%d`:\n\n```\n%s```\n", beginMarker, shortest(o.duration), o.chats, summary)
	for _, page := range pages {
		fmt.Fprintf(&b, "\n![%s](charts/%s.svg)\n", page.alt, page.name)
	}
	b.WriteString(endMarker)
	return os.WriteFile(o.doc, []byte(before+b.String()+after), 0o644) //nolint:gosec // a document of the repository
}

// shortest is a duration without its zeros: 5m, not 5m0s.
func shortest(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func writeJSON(path string, r report) error {
	text, err := json.MarshalIndent(map[string]any{
		"machine": r.machine, "figures": summarize(r), "checks": r.checks, "errors": r.heard.errors,
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

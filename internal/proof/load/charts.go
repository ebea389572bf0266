package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A page of charts, two in a row.
const (
	pageWidth   = 900 * vg.Length(1)
	panelHeight = 185 * vg.Length(1)
	columns     = 2
	// chartPoints is how many points a line has at most: more are not seen, and make the file large.
	chartPoints = 120
)

// ink is distinct for those who see colours differently, too (Okabe and Ito, 2002).
var ink = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{120, 120, 120, 255},
}

// drawCharts writes each page into the folder, in each of the formats: .svg, .png.
func drawCharts(folder string, samples []sample, formats ...string) error {
	if len(samples) < 2 {
		return nil // too short to draw a line
	}
	var errs []error
	for _, p := range pages {
		for _, format := range formats {
			errs = append(errs, p.write(filepath.Join(folder, p.name+format), samples))
		}
	}
	return errors.Join(errs...)
}

func (p page) write(path string, samples []sample) error {
	rows := (len(p.panels) + columns - 1) / columns
	height := panelHeight * vg.Length(rows)
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch filepath.Ext(path) {
	case ".svg":
		canvas = vgsvg.New(pageWidth, height)
	case ".png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.New(pageWidth, height)}
	default:
		return fmt.Errorf("%s: charts are .svg or .png", path)
	}
	if err := p.draw(draw.New(canvas), rows, samples); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

func (p page) draw(canvas draw.Canvas, rows int, samples []sample) error {
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	plots := make([][]*plot.Plot, rows)
	for n, panel := range p.panels {
		drawn, err := panel.plot(samples)
		if err != nil {
			return fmt.Errorf("%s: %w", panel.title, err)
		}
		plots[n/columns] = append(plots[n/columns], drawn)
	}
	const margin = vg.Length(12)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 2 * margin, PadY: margin, PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin}
	for row, canvases := range plot.Align(plots, tiles, canvas) {
		for column, one := range canvases {
			if column < len(plots[row]) {
				plots[row][column].Draw(one)
			}
		}
	}
	return nil
}

func (p panel) plot(samples []sample) (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text = p.title
	drawn.Y.Label.Text = p.unit
	drawn.X.Label.Text = "minutes"
	drawn.Legend.Top, drawn.Legend.Left = true, false
	drawn.Legend.Padding, drawn.Legend.ThumbnailWidth = 1, 12
	drawn.Legend.TextStyle.Font.Size = 8
	drawn.Title.TextStyle.Font.Size = 11
	highest := 0.0
	for n, l := range p.lines(samples) {
		points := p.xys(l.points)
		if len(points) < 2 {
			continue
		}
		for _, one := range points {
			highest = max(highest, one.Y)
		}
		curve, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		curve.Color, curve.Width = ink[n%len(ink)], 1.2
		drawn.Add(curve)
		drawn.Legend.Add(l.name, curve)
	}
	p.scale(drawn, highest)
	return drawn, nil
}

// scale leaves room for the legend above the lines.
func (p panel) scale(drawn *plot.Plot, highest float64) {
	const room, least = 1.35, 1e-3
	drawn.X.Min, drawn.X.Tick.Marker = 0, plainTicks{}
	if !p.logarithmic {
		drawn.Y.Min, drawn.Y.Max, drawn.Y.Tick.Marker = 0, max(highest*room, 1), plainTicks{}
		return
	}
	drawn.Y.Scale, drawn.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 4}
	drawn.Y.Min, drawn.Y.Max = min(max(drawn.Y.Min, least), 1), max(highest*10*room, 10)
}

// plainTicks are the library's, with labels as people write numbers.
type plainTicks struct{}

func (plainTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for n := range ticks {
		if ticks[n].Label != "" {
			ticks[n].Label = strconv.FormatFloat(ticks[n].Value, 'g', 6, 64)
		}
	}
	return ticks
}

// xys makes at most chartPoints of the points, each the mean of some, except that a logarithmic chart has no place for
// nothing.
func (p panel) xys(points []point) (kept plotter.XYs) {
	size := max((len(points)+chartPoints-1)/chartPoints, 1)
	for begin := 0; begin < len(points); begin += size {
		some := points[begin:min(begin+size, len(points))]
		sum, count := 0.0, 0.0
		for _, one := range some {
			if one.value > 0 || one.value == 0 && !p.logarithmic { // which leaves out what is no number
				sum += one.value
				count++
			}
		}
		if count > 0 {
			kept = append(kept, plotter.XY{X: float64(some[0].at) / float64(time.Minute), Y: sum / count})
		}
	}
	return kept
}

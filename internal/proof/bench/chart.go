package main

import (
	"errors"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panel is one drawing of a chart, which has an even number of them, two in a row.
type panel struct {
	title, unit, x string
	// log is for values that differ by more than what an even scale shows.
	log bool
	// places name the values' places along x; without names they are counted from 1.
	places []string
	lines  []curve
}

type curve struct {
	name   string
	values []float64
}

// Inks that are distinct for those who see colours differently, too (Okabe and Ito, 2002): ours, and the others'
// in turn.
var (
	inkOurs   = color.RGBA{0, 114, 178, 255}
	inkOthers = []color.Color{color.RGBA{120, 120, 120, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{213, 94, 0, 255}}
)

func (p panel) ink(name string) color.Color {
	if name == oursName {
		return inkOurs
	}
	others := slices.DeleteFunc(slices.Clone(p.lines), func(c curve) bool { return c.name == oursName })
	at := slices.IndexFunc(others, func(c curve) bool { return c.name == name })
	return inkOthers[at%len(inkOthers)]
}

// writeCharts writes an SVG for each group that has a chart, by the group's name.
func writeCharts(folder string, groups []group) error {
	var errs []error
	for _, g := range groups {
		if g.panels != nil {
			errs = append(errs, writeChart(filepath.Join(folder, g.Name+".svg"), g.panels(g.Rows)))
		}
	}
	return errors.Join(errs...)
}

func writeChart(path string, panels []panel) error {
	const columns, width, height, margin = 2, vg.Length(900), vg.Length(260), vg.Length(14)
	rows := len(panels) / columns
	svg := vgsvg.New(width, height*vg.Length(rows))
	canvas := draw.New(svg)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	plots := make([][]*plot.Plot, rows)
	for n, p := range panels {
		drawn, err := p.plot()
		if err != nil {
			return err
		}
		plots[n/columns] = append(plots[n/columns], drawn)
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 2 * margin, PadY: margin, PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin}
	for row, canvases := range plot.Align(plots, tiles, canvas) {
		for column, one := range canvases {
			plots[row][column].Draw(one)
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = svg.WriteTo(file)
	return errors.Join(err, file.Close())
}

func (p panel) plot() (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text, drawn.Y.Label.Text, drawn.X.Label.Text = p.title, p.unit, p.x
	drawn.Title.TextStyle.Font.Size, drawn.Legend.TextStyle.Font.Size = 12, 9
	drawn.Legend.Top, drawn.Legend.Left, drawn.Legend.ThumbnailWidth, drawn.Legend.Padding = true, true, 16, 2
	drawn.Add(plotter.NewGrid())
	highest, lowest := 0.0, 0.0
	for _, l := range p.lines {
		points := l.points(p.log)
		for _, one := range points {
			highest = max(highest, one.Y)
			if lowest == 0 || one.Y < lowest {
				lowest = one.Y
			}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, marks.Color = p.ink(l.name), 1.5, p.ink(l.name)
		marks.Shape, marks.Radius = draw.CircleGlyph{}, 2.5
		drawn.Add(line)
		if len(p.places) > 0 {
			drawn.Add(marks)
		}
		drawn.Legend.Add(l.name, line)
	}
	p.scale(drawn, lowest, highest)
	return drawn, nil
}

// scale leaves room for the legend above the lines.
func (p panel) scale(drawn *plot.Plot, lowest, highest float64) {
	if len(p.places) > 0 {
		drawn.NominalX(p.places...)
		drawn.X.Min, drawn.X.Max = -0.3, float64(len(p.places))-0.7
	} else {
		drawn.X.Min = 0
	}
	if !p.log {
		drawn.Y.Min, drawn.Y.Max, drawn.Y.Tick.Marker = 0, 1.5*highest, plainTicks{plot.DefaultTicks{}}
		return
	}
	drawn.Y.Scale, drawn.Y.Tick.Marker = plot.LogScale{}, plainTicks{plot.LogTicks{Prec: -1}}
	drawn.Y.Min, drawn.Y.Max = lowest/2, highest*30
}

// points are the values in their places. A logarithmic scale has no place for what is not above 0, so the
// least that is told stands there.
func (c curve) points(log bool) plotter.XYs {
	const least = 0.01
	points := make(plotter.XYs, len(c.values))
	for i, value := range c.values {
		if log {
			value = max(value, least)
		}
		points[i] = plotter.XY{X: float64(i), Y: value}
	}
	return points
}

// plainTicks are the library's, with labels as people write numbers.
type plainTicks struct{ plot.Ticker }

func (t plainTicks) Ticks(low, high float64) []plot.Tick {
	ticks := t.Ticker.Ticks(low, high)
	for n := range ticks {
		if ticks[n].Label != "" {
			ticks[n].Label = strconv.FormatFloat(ticks[n].Value, 'f', -1, 64)
		}
	}
	return ticks
}

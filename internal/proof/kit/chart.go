package kit

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"strconv"
	"strings"
)

// Panel is one drawing of a chart: lines over time, or over a few named places.
type Panel struct {
	Title, Unit, X string // Unit labels the y axis, X the x axis
	// Log is for values that differ by more than an even scale shows. Values that are not above 0 are left out.
	Log bool
	// Places name 0, 1, 2 … on the x axis, which otherwise has numbers.
	Places []string
	Lines  []Line
}

// Line is a named line. The first of a panel is blue.
type Line struct {
	Name   string
	Points []Point
}

// Point is a value Y at X. One that is not a finite number is left out.
type Point struct{ X, Y float64 }

// inks are distinct for colour-blind readers, too (Okabe and Ito, 2002).
var inks = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#787878"}

// Sizes in pixels.
const (
	panelWidth, panelHeight = 450, 220
	plotLeft, plotRight     = 60, panelWidth - 16
	plotTop, plotBottom     = 44, panelHeight - 36
)

// WriteChart writes panels into an SVG file, two in a row.
func WriteChart(path string, panels []Panel) error {
	var svg strings.Builder
	height := (len(panels) + 1) / 2 * panelHeight
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" `+
		`font-size="10">`+"\n", 2*panelWidth, height)
	svg.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for n, p := range panels {
		fmt.Fprintf(&svg, `<g transform="translate(%d,%d)">`+"\n", n%2*panelWidth, n/2*panelHeight)
		p.draw(&svg)
		svg.WriteString("</g>\n")
	}
	svg.WriteString("</svg>\n")
	return os.WriteFile(path, []byte(svg.String()), 0o644) //nolint:gosec // a drawing for everybody
}

func (p Panel) draw(svg *strings.Builder) {
	x, y := p.axes()
	const middle = (plotLeft + plotRight) / 2
	writeText(svg, middle, 14, "middle", p.Title, `font-size="12"`)
	writeText(svg, middle, panelHeight-6, "middle", p.X, "")
	writeText(svg, 0, 0, "middle", p.Unit, fmt.Sprintf(`transform="translate(12,%d) rotate(-90)"`, (plotTop+plotBottom)/2))
	for _, tick := range y.ticks() {
		at := y.at(tick)
		fmt.Fprintf(svg, `<path d="M%d,%.1fH%d" stroke="#ddd"/>`+"\n", plotLeft, at, plotRight)
		writeText(svg, plotLeft-5, at+3, "end", plain(tick), "")
	}
	for i, tick := range x.ticks() {
		label := plain(tick)
		if len(p.Places) > 0 {
			label = p.Places[i]
		}
		writeText(svg, x.at(tick), plotBottom+13, "middle", label, "")
	}
	fmt.Fprintf(svg, `<path d="M%d,%dV%dH%d" stroke="#555" fill="none"/>`+"\n", plotLeft, plotTop, plotBottom, plotRight)
	legend := float64(plotLeft - 20)
	for n, l := range p.Lines {
		ink := inks[n%len(inks)]
		fmt.Fprintf(svg, `<path d="M%.1f,30h12" stroke="%s" stroke-width="2"/>`+"\n", legend, ink)
		writeText(svg, legend+15, 33, "start", l.Name, `font-size="9"`)
		const perLetter = 5.1 // about, at this size
		legend += 23 + perLetter*float64(len(l.Name))
		p.drawLine(svg, x, y, l, ink)
	}
}

func (p Panel) drawLine(svg *strings.Builder, x, y axis, l Line, ink string) {
	var points []string
	for _, point := range l.Points {
		if !p.shows(point) {
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(point.X), y.at(point.Y)))
		if len(p.Places) > 0 {
			fmt.Fprintf(svg, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", x.at(point.X), y.at(point.Y), ink)
		}
	}
	fmt.Fprintf(svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.4"/>`+"\n", strings.Join(points, " "), ink)
}

func (p Panel) shows(point Point) bool {
	return !math.IsNaN(point.Y) && !math.IsInf(point.Y, 0) && (point.Y > 0 || !p.Log)
}

func writeText(svg *strings.Builder, x, y float64, anchor, content, attributes string) {
	fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(content))
}

func plain(value float64) string { return strconv.FormatFloat(value, 'g', 6, 64) }

// axis maps values from low to high to pixels.
type axis struct {
	low, high float64
	from, to  float64
	log       bool
	step      float64 // between ticks; a factor on a logarithmic axis
}

// axes fits both axes to the points that are shown.
func (p Panel) axes() (x, y axis) {
	right, lowest, highest := 0.0, math.Inf(1), 0.0
	for _, l := range p.Lines {
		for _, point := range l.Points {
			if p.shows(point) {
				right, lowest, highest = max(right, point.X), min(lowest, point.Y), max(highest, point.Y)
			}
		}
	}
	right, highest = cmp.Or(right, 1), cmp.Or(highest, 1)
	const room = 1.05
	x = axis{high: right, from: plotLeft, to: plotRight, step: roundStep(right)}
	if len(p.Places) > 0 {
		const beside = 0.3
		x.low, x.high, x.step = -beside, float64(len(p.Places)-1)+beside, 1
	}
	y = axis{high: highest * room, from: plotBottom, to: plotTop, step: roundStep(highest)}
	if p.Log {
		y.log, y.step = true, 10
		y.low = math.Pow(10, math.Floor(math.Log10(min(lowest, 1))))
		y.high = math.Pow(10, math.Ceil(math.Log10(max(highest, 10*y.low))))
	}
	return x, y
}

// roundStep divides a length into some four to ten steps of 1, 2 or 5 times a power of ten.
func roundStep(length float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(length/4)))
	for _, factor := range []float64{5, 2} {
		if length/(factor*power) >= 4 {
			return factor * power
		}
	}
	return power
}

func (a axis) at(value float64) float64 {
	low, high := a.low, a.high
	if a.log {
		value, low, high = math.Log10(value), math.Log10(low), math.Log10(high)
	}
	return a.from + (value-low)/(high-low)*(a.to-a.from)
}

func (a axis) ticks() []float64 {
	var all []float64
	if a.log {
		for tick := a.low; tick <= a.high*1.01; tick *= a.step {
			all = append(all, tick)
		}
		return all
	}
	for n := math.Ceil(a.low / a.step); n*a.step <= a.high; n++ {
		all = append(all, n*a.step)
	}
	return all
}

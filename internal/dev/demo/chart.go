package demo

import (
	"fmt"
	"slices"
	"strings"
)

const (
	chartRows = 16
	// chartMargin is what stands left of the chart: a number and the axis.
	chartMargin = 11
	eighths     = 8
)

// levels are the lower eighths of a cell, from none to all.
var levels = []rune(" ▁▂▃▄▅▆▇█")

const historyCell = '░'

// chart draws memory and history tokens per turn on one scale: memory as a solid area, in eighths of a
// row, and the history behind it as a light one. Both have one value per turn.
func chart(memory, history []int, width int) string {
	if len(memory) == 0 {
		return ""
	}
	columns := max(1, width-chartMargin)
	memory, history = spread(memory, columns), spread(history, columns)
	top := max(1, slices.Max(memory), slices.Max(history))
	var b strings.Builder
	for row := chartRows - 1; row >= 0; row-- {
		b.WriteString(axisLabel(row, top))
		line := make([]rune, columns)
		for c := range columns {
			line[c] = cell(memory[c], history[c], row, top)
		}
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}

// cell is what stands in one row of one column.
func cell(memory, history, row, top int) rune {
	if filled := inRow(memory, row, top, chartRows); filled > 0 {
		return levels[filled]
	}
	if inRow(history, row, top, chartRows) >= eighths/2 {
		return historyCell
	}
	return ' '
}

// inRow is how many eighths of a row a value fills. A value above 0 fills at least one of the lowest.
func inRow(value, row, top, rows int) int {
	height := value * rows * eighths / top
	if value > 0 {
		height = max(height, 1)
	}
	return min(max(height-row*eighths, 0), eighths)
}

// axisLabel names every fourth row's upper end.
func axisLabel(row, top int) string {
	const every = 4
	if (chartRows-1-row)%every != 0 {
		return strings.Repeat(" ", chartMargin-1) + "│"
	}
	return fmt.Sprintf("%*s ┤", chartMargin-2, grouped(top*(row+1)/chartRows))
}

// turnAxis is the line below a chart or sparkline.
func turnAxis(turns, width int) string {
	columns := max(1, width-chartMargin)
	first, last := "turn 1", fmt.Sprintf("turn %d", turns)
	gap := max(1, columns-len(first)-len(last))
	margin := strings.Repeat(" ", chartMargin)
	return margin[1:] + "└" + strings.Repeat("─", columns) + "\n" + margin + first + strings.Repeat(" ", gap) + last + "\n"
}

// sparkline draws one series in one row, from 0 to its largest value.
func sparkline(values []int, width int) string {
	if len(values) == 0 {
		return ""
	}
	columns := max(1, width-chartMargin)
	top := max(1, slices.Max(values))
	var b strings.Builder
	for _, value := range spread(values, columns) {
		b.WriteRune(levels[inRow(value, 0, top, 1)])
	}
	return b.String()
}

// spread brings a series to a number of columns: each value on several where there are few, the
// largest of several where there are many, so that no peak is hidden.
func spread(values []int, columns int) []int {
	out := make([]int, columns)
	for c := range columns {
		from := c * len(values) / columns
		to := max(from+1, (c+1)*len(values)/columns)
		out[c] = slices.Max(values[from:to])
	}
	return out
}

package main

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// point is a value at a time.
type point struct {
	at    time.Duration
	value float64
}

// slope is the median of the slopes between all pairs of points, per second (Theil, 1950; Sen, 1968, "Estimates of
// the regression coefficient based on Kendall's tau"). Up to 29 % of the points may lie anywhere without moving it
// far, so a peak here or there is no trend. 0 for fewer than two points.
func slope(points []point) float64 {
	points = thin(points, mostPoints)
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if seconds := (b.at - a.at).Seconds(); seconds > 0 {
				slopes = append(slopes, (b.value-a.value)/seconds)
			}
		}
	}
	return median(slopes)
}

// mostPoints bounds the pairs: 20 000 of them say as much as a million.
const mostPoints = 200

// thin makes at most that many points, each the median of its neighbours.
func thin(points []point, most int) []point {
	if len(points) <= most {
		return points
	}
	kept := make([]point, most)
	for i := range kept {
		some := points[i*len(points)/most : (i+1)*len(points)/most]
		values := make([]float64, len(some))
		for n, one := range some {
			values[n] = one.value
		}
		kept[i] = point{some[len(some)/2].at, median(values)}
	}
	return kept
}

// median is 0 of nothing.
func median[T cmp.Ordered](values []T) T {
	var none T
	if len(values) == 0 {
		return none
	}
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// secondHalf is the part of a run in which nothing should grow any more.
func secondHalf(samples []sample) []sample { return samples[len(samples)/2:] }

// growth is what a value grows within the samples, by its trend, less what comes of there being more of something at
// the end than at the beginning: each at most so much. Both trends are the same estimate, so that a load which does not
// grow takes nothing off a leak.
func growth(samples []sample, value, of func(sample) float64, each float64) float64 {
	if len(samples) < 2 {
		return 0
	}
	lasts := (samples[len(samples)-1].At - samples[0].At).Seconds()
	more := max(slope(pointsOf(samples, of))*lasts, 0)
	return slope(pointsOf(samples, value))*lasts - more*each
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

package main

import "math"

// queue is M/M/c: work comes at random (Poisson), takes times that are exponentially distributed, and is done by so
// many servers in the order in which it came (A. K. Erlang 1917; Kleinrock, Queueing Systems I, 1975, section 3.5).
// Times are in seconds.
type queue struct {
	servers int
	rate    float64 // of arrivals
	service float64 // mean
}

// utilisation is the share of time that a server works.
func (q queue) utilisation() float64 { return q.rate * q.service / float64(q.servers) }

// waits is the share of the work that has to wait at all: Erlang's C, by way of his B, which stays within what a
// float holds for any number of servers.
func (q queue) waits() float64 {
	offered := q.rate * q.service
	blocked := 1.0
	for n := 1; n <= q.servers; n++ {
		blocked = offered * blocked / (float64(n) + offered*blocked)
	}
	return blocked / (1 - q.utilisation()*(1-blocked))
}

// wait is the time that a share of the work waits at most, such as 0.99. A queue that is given more than it can do
// has none.
func (q queue) wait(share float64) float64 {
	if q.utilisation() >= 1 {
		return math.Inf(1)
	}
	beyond := 1 - share
	if q.waits() <= beyond {
		return 0
	}
	return math.Log(q.waits()/beyond) / (float64(q.servers)/q.service - q.rate)
}

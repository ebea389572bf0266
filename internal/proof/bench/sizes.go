package main

import "time"

// sizes are how much of everything a run measures.
type sizes struct {
	// messages in the table before anything is measured; a part of them belongs to longChats chats of
	// longTurns turns each, the rest to chats of shortTurns turns.
	messages, longChats, longTurns int
	users                          int
	sharedBuffers                  string

	samples   int           // repetitions of what is timed one by one
	window    time.Duration // of what is counted per second
	microTime time.Duration // of each loop without I/O

	folds   int // chats that are due to be folded
	pickups int // jobs whose way from insert to start is timed
	turns   int // of the chat that is driven from its first to its last

	firstDeltas int // streams one after another
	stages      []stage
	cuts        cutting
	slow        slowness
	stop        stopping
	record      recording
	remember    remembering
}

// stage is many streams at once: opened evenly over ramp, then measured for steady.
type stage struct {
	streams      int
	ramp, steady time.Duration
}

const (
	shortTurns = 10
	// clients is the concurrency of everything that is counted per second.
	clients = 8
	// tokensPerSecond is the pace of each stream.
	tokensPerSecond = 50
)

var (
	full = sizes{
		messages: 1_000_000, longChats: 5, longTurns: 10_000, users: 1000, sharedBuffers: "512MB",
		samples: 2000, window: 3 * time.Second, microTime: 150 * time.Millisecond,
		folds: 3000, pickups: 200, turns: 500,
		firstDeltas: 300,
		stages: []stage{
			{streams: 100, ramp: time.Second, steady: 3 * time.Second},
			{streams: 300, ramp: 1500 * time.Millisecond, steady: 3 * time.Second},
			{streams: 1000, ramp: 4 * time.Second, steady: 5 * time.Second},
		},
		cuts:     cutting{clients: 200, tokens: 200, ramp: time.Second},
		slow:     slowness{readers: 50, tokens: 300, others: stage{streams: 200, ramp: time.Second, steady: 4 * time.Second}},
		stop:     stopping{clients: 100, ramp: time.Second, drain: 15 * time.Second},
		record:   recording{followed: 50, stage: stage{streams: 300, ramp: time.Second, steady: 2 * time.Second}, intervals: milliseconds(25, 50, 100, 250)},
		remember: remembering{summaryTime: 300 * time.Millisecond, embeddingTime: 30 * time.Millisecond},
	}
	quick = sizes{
		messages: 20_000, longChats: 1, longTurns: 1000, users: 50, sharedBuffers: "128MB",
		samples: 200, window: 500 * time.Millisecond, microTime: 50 * time.Millisecond,
		folds: 200, pickups: 20, turns: 200,
		firstDeltas: 30,
		stages:      []stage{{streams: 20, ramp: 500 * time.Millisecond, steady: time.Second}},
		cuts:        cutting{clients: 40, tokens: 60, ramp: 500 * time.Millisecond},
		slow:        slowness{readers: 5, tokens: 150, others: stage{streams: 20, ramp: 500 * time.Millisecond, steady: time.Second}},
		stop:        stopping{clients: 20, ramp: 500 * time.Millisecond, drain: 2 * time.Second},
		record:      recording{followed: 5, stage: stage{streams: 20, ramp: 500 * time.Millisecond, steady: time.Second}, intervals: milliseconds(100)},
		remember:    remembering{turns: 60, summaryTime: 20 * time.Millisecond, embeddingTime: 2 * time.Millisecond},
	}
)

func milliseconds(counts ...int) []time.Duration {
	all := make([]time.Duration, len(counts))
	for i, count := range counts {
		all[i] = time.Duration(count) * time.Millisecond
	}
	return all
}

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"sync/atomic"
)

// log keeps the lines of a process that warn of something, and counts those that tell of an error. What is ordinary
// would be gigabytes.
type log struct {
	kept   io.WriteCloser
	errors atomic.Int64
	warned atomic.Int64
}

var ordinaryLine = []byte(`"level":"INFO"`)

// Write gets one line at a time.
func (l *log) Write(line []byte) (int, error) {
	if bytes.Contains(line, ordinaryLine) {
		return len(line), nil
	}
	var said struct{ Level string }
	switch {
	case json.Unmarshal(line, &said) != nil, said.Level == "ERROR":
		l.errors.Add(1) // what is no line of the log is a crash
	case said.Level == "WARN":
		l.warned.Add(1)
	}
	return l.kept.Write(line)
}

func (l *log) Close() error { return l.kept.Close() }

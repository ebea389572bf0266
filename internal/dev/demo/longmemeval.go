package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// longMemEvalDate is how that data set writes times; it names no time zone.
const longMemEvalDate = "2006/01/02 (Mon) 15:04"

// longMemEval is what is read of one of its conversations: sessions, and when each took place.
type longMemEval struct {
	Sessions [][]Line `json:"haystack_sessions"`
	Dates    []string `json:"haystack_dates"`
}

// ReadLongMemEval reads the conversation at index (from 0) of a LongMemEval file, a JSON array: its
// sessions one after the other, each message with the time of its session, taken as UTC. The error
// names the session and message that are wrong, from 1.
func ReadLongMemEval(r io.Reader, index int) ([]Line, error) {
	var all []longMemEval
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return nil, fmt.Errorf("LongMemEval file: %w", err)
	}
	if index < 0 || index >= len(all) {
		return nil, fmt.Errorf("LongMemEval file: there is no conversation %d, it has %d, counted from 0", index, len(all))
	}
	return all[index].lines()
}

func (c longMemEval) lines() ([]Line, error) {
	var lines []Line
	for i, session := range c.Sessions {
		at, err := c.date(i)
		if err != nil {
			return nil, err
		}
		for n, line := range session {
			if err := line.check(); err != nil {
				return nil, fmt.Errorf("LongMemEval file: session %d, message %d: %w", i+1, n+1, err)
			}
			line.CreatedAt = at
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// date is when a session took place; zero when the file has no date for it.
func (c longMemEval) date(session int) (time.Time, error) {
	if session >= len(c.Dates) {
		return time.Time{}, nil
	}
	at, err := time.Parse(longMemEvalDate, c.Dates[session])
	if err != nil {
		return time.Time{}, fmt.Errorf("LongMemEval file: date of session %d: %w", session+1, err)
	}
	return at, nil
}

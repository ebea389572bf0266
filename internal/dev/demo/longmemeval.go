package demo

import (
	"encoding/json"
	"fmt"
	"io"
)

// readLongMemEval reads a chat history of a LongMemEval file (https://github.com/xiaowu0162/LongMemEval), a JSON array,
// by its index from 0: its sessions, one after the other. The error names the session and message that are wrong,
// from 1.
func readLongMemEval(r io.Reader, index int) ([]Line, error) {
	var histories []struct {
		Sessions [][]Line `json:"haystack_sessions"`
	}
	if err := json.NewDecoder(r).Decode(&histories); err != nil {
		return nil, fmt.Errorf("LongMemEval file: %w", err)
	}
	if index < 0 || index >= len(histories) {
		return nil, fmt.Errorf("LongMemEval file: there is no history %d, it has %d, counted from 0", index, len(histories))
	}
	var lines []Line
	for i, session := range histories[index].Sessions {
		for n, line := range session {
			if err := line.check(); err != nil {
				return nil, fmt.Errorf("LongMemEval file: session %d, message %d: %w", i+1, n+1, err)
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

package topics

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// Entry is a message of a topic as it is archived and as the API answers it.
type Entry struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// Timestamp is in seconds since 1970, to the microsecond.
	Timestamp float64 `json:"timestamp"`
}

// NewEntry returns the entry of a message.
func NewEntry(role, content string, at time.Time) Entry {
	return Entry{Role: role, Content: content, Timestamp: float64(at.UnixMicro()) / 1e6}
}

// Archive returns entries as the API answers the packed messages of a topic: a JSON array, compressed by gzip, in base64. It
// begins with "H4sI". Nothing stores it: the rows of messages hold the words, and making it of them takes milliseconds.
func Archive(entries []Entry) (string, error) {
	raw := &bytes.Buffer{}
	encoder := json.NewEncoder(raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(entries); err != nil {
		return "", fmt.Errorf("archive a topic: %w", err)
	}
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is a valid one
	if _, err := zip.Write(bytes.TrimSuffix(raw.Bytes(), []byte("\n"))); err != nil {
		return "", fmt.Errorf("archive a topic: %w", err)
	}
	if err := zip.Close(); err != nil {
		return "", fmt.Errorf("archive a topic: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

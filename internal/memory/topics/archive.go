package topics

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

// At returns the time of the entry, to the microsecond.
func (e Entry) At() time.Time { return time.UnixMicro(int64(math.Round(e.Timestamp * 1e6))).UTC() }

// Archive is the packed messages of a topic: the JSON array of their entries, compressed by gzip.
type Archive struct {
	Data     []byte
	Messages int
	// RawBytes and SHA256 are of the JSON.
	RawBytes int
	SHA256   []byte
}

// ErrBroken is what is wrong with an archive that cannot be unpacked. The error says which of its numbers does not fit,
// never what is in it.
var ErrBroken = errors.New("the archive is broken")

// Pack archives entries. The same entries make the same archive.
func Pack(entries []Entry) (Archive, error) {
	raw, err := rawOf(entries)
	if err != nil {
		return Archive{}, fmt.Errorf("pack a topic: %w", err)
	}
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is a valid one
	if _, err := zip.Write(raw); err != nil {
		return Archive{}, fmt.Errorf("pack a topic: %w", err)
	}
	if err := zip.Close(); err != nil {
		return Archive{}, fmt.Errorf("pack a topic: %w", err)
	}
	sum := sha256.Sum256(raw)
	return Archive{Data: packed.Bytes(), Messages: len(entries), RawBytes: len(raw), SHA256: sum[:]}, nil
}

func rawOf(entries []Entry) ([]byte, error) {
	if entries == nil {
		entries = []Entry{}
	}
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(entries)
	return bytes.TrimSuffix(raw.Bytes(), []byte("\n")), err
}

// Unpack returns the entries of an archive that is whole; else an error that is ErrBroken.
func Unpack(a Archive) ([]Entry, error) {
	raw, err := a.unzip()
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], a.SHA256) {
		return nil, fmt.Errorf("%w: another checksum", ErrBroken)
	}
	var entries []Entry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("%w: no list of messages", ErrBroken)
	}
	if len(entries) != a.Messages {
		return nil, fmt.Errorf("%w: %d messages, not %d", ErrBroken, len(entries), a.Messages)
	}
	return entries, nil
}

// unzip reads no more than what the archive is said to hold.
func (a Archive) unzip() ([]byte, error) {
	zip, err := gzip.NewReader(bytes.NewReader(a.Data))
	if err != nil {
		return nil, fmt.Errorf("%w: no gzip", ErrBroken)
	}
	raw, err := io.ReadAll(io.LimitReader(zip, int64(a.RawBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: damaged or cut", ErrBroken)
	}
	if len(raw) != a.RawBytes {
		return nil, fmt.Errorf("%w: not %d bytes", ErrBroken, a.RawBytes)
	}
	return raw, nil
}

// Base64 returns the archive as the API answers it. It begins with "H4sI".
func (a Archive) Base64() string { return base64.StdEncoding.EncodeToString(a.Data) }

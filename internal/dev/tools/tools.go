// Package tools is a small server of tools on loopback, as an app would have one: roll_dice, and send_postcard, which the user has to
// approve and which writes to a folder. It takes any user's token, but wants one.
//
// It is idempotent and keeps nothing in memory: the same Idempotency-Key rolls the same dice, and names the same postcard.
package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/arcoscribe/throughline/internal/dev/loopback"
)

// Server serves the tools. Close it.
type Server struct {
	base string
	stop func() error
}

// Start serves the tools on a free port of this machine. Postcards go to a folder, which is made for the first.
func Start(postcards string) (*Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /roll_dice", serve(roll))
	mux.HandleFunc("POST /send_postcard", serve(func(card postcard, key [32]byte) (any, error) { return card.write(postcards, key) }))
	base, stop, err := loopback.Serve(mux, 0)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return &Server{base, stop}, nil
}

// Close ends the server and all calls.
func (s *Server) Close() error { return s.stop() }

// declarations has the address of the server as its only argument.
const declarations = `{"tools": [
  {"name": "roll_dice", "description": "Rolls dice.", "url": "%[1]s/roll_dice", "timeout": "5s",
   "parameters": {"type": "object", "additionalProperties": false, "properties": {
     "count": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many; 1 if absent."},
     "sides": {"type": "integer", "minimum": 2, "maximum": 1000, "description": "Of each; 6 if absent."}}}},
  {"name": "send_postcard", "description": "Sends a postcard from the user.", "url": "%[1]s/send_postcard", "timeout": "5s",
   "strict": true, "approval": true,
   "parameters": {"type": "object", "additionalProperties": false, "required": ["to", "text"], "properties": {
     "to": {"type": "string", "description": "The first name of the recipient."}, "text": {"type": "string"}}}}
]}
`

// Declarations returns the tools as the contents of a TOOLS_FILE.
func (s *Server) Declarations() []byte { return fmt.Appendf(nil, declarations, s.base) }

// maxArguments is the largest body in bytes.
const maxArguments = 64 << 10

// serve answers the calls of a tool that takes arguments of type T. Its error is the caller's fault, unless it is the disk's.
func serve[T any](run func(arguments T, key [32]byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !isBearer || token == "" {
			answer(w, http.StatusUnauthorized, map[string]any{"error": "the user's token is missing"})
			return
		}
		key := r.Header.Get("Idempotency-Key")
		var arguments T
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxArguments))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&arguments)
		if key == "" {
			err = errors.New("Idempotency-Key is missing")
		}
		var result any
		if err == nil {
			result, err = run(arguments, sha256.Sum256([]byte(key)))
		}
		_, onDisk := errors.AsType[*fs.PathError](err)
		switch {
		case onDisk:
			answer(w, http.StatusInternalServerError, map[string]any{"error": "the postcard was not written"})
		case err != nil:
			answer(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
		default:
			answer(w, http.StatusOK, result)
		}
	}
}

// answer writes JSON. A failed write means that the caller is gone.
func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

type dice struct{ Count, Sides int }

// rolled is what the dice show. Rolls are there for more than one.
type rolled struct {
	Total int   `json:"total"`
	Rolls []int `json:"rolls,omitempty"`
}

func roll(d dice, key [32]byte) (any, error) {
	d.Count, d.Sides = cmp.Or(d.Count, 1), cmp.Or(d.Sides, 6)
	if d.Count < 1 || d.Count > 100 || d.Sides < 2 || d.Sides > 1000 {
		return nil, errors.New("there are 1 to 100 dice of 2 to 1000 sides")
	}
	random := rand.New(rand.NewChaCha8(key)) //nolint:gosec // the same key rolls the same dice
	var result rolled
	for range d.Count {
		one := random.IntN(d.Sides) + 1
		result.Total += one
		result.Rolls = append(result.Rolls, one)
	}
	if d.Count == 1 {
		result.Rolls = nil
	}
	return result, nil
}

type postcard struct{ To, Text string }

// write writes the postcard to a file, unless it is there.
func (card postcard) write(folder string, key [32]byte) (any, error) {
	if strings.TrimSpace(card.To) == "" || strings.TrimSpace(card.Text) == "" {
		return nil, errors.New("a postcard needs a recipient and a text")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(folder, hex.EncodeToString(key[:8])+".txt")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return map[string]any{"sent": name}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(file, "To %s\n\n%s\n", card.To, card.Text)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(name)) // else it would count as sent
	}
	return map[string]any{"sent": name}, nil
}

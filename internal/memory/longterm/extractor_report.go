package longterm

import (
	"time"

	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Ledger is what the ledger says of a range of turns that was read: the value of memory_extractions.result.
type Ledger string

// The results of a range.
const (
	// Read: there were candidates for memories.
	Read Ledger = "done"
	// Empty: there was nothing to remember.
	NothingRead Ledger = "empty"
	// Skipped: the range was not read, because the user wanted it so, or because the model failed five times.
	Skipped Ledger = "skipped"
)

// Report describes an extraction, without content.
type Report struct {
	Result work.Result `json:"result"`
	// Ledger is the entry that it wrote; "" for none.
	Ledger       Ledger         `json:"ledger,omitempty"`
	ID           uuid.UUID      `json:"extraction_id,omitzero"`
	SeqFrom      int64          `json:"seq_from,omitempty"`
	SeqTo        int64          `json:"seq_to,omitempty"`
	Turns        int            `json:"turns"`
	Candidates   int            `json:"candidates"`
	Added        int            `json:"added"`
	Updated      int            `json:"updated"`
	Superseded   int            `json:"superseded"`
	Noops        int            `json:"noops"`
	Dropped      map[string]int `json:"dropped,omitempty"`
	Used         int            `json:"used"`
	Calls        int            `json:"calls"`
	InputTokens  int            `json:"input_tokens"`
	OutputTokens int            `json:"output_tokens"`
	Model        string         `json:"model,omitempty"`
	PromptRef    string         `json:"prompt_ref,omitempty"`
	// Rounds is how often the memories were compared, because they changed meanwhile.
	Rounds     int   `json:"rounds,omitempty"`
	DurationMS int64 `json:"duration_ms"`
	// Wait is how long it is until the chat is due; 0 if it is, or if nothing is left to read.
	Wait time.Duration `json:"-"`
}

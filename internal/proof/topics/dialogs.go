package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// dialog is a chat of which it is known what each turn is about: its session.
type dialog struct {
	name     string
	messages int
	turns    []*turn
}

// turn is a user's message and what follows it, as the server indexes it.
type turn struct {
	seq, lastSeq int64
	session      string
	saidAt       time.Time
	question     string
	messages     []memory.Message
	// whole is the vector of the turn as the server makes it, alone that of the question.
	whole, alone []float32
}

// text is what the server makes the turn's vector of.
func (t *turn) text() string {
	const mostRead = 10_000 // characters of a message, as the server reads it
	messages := slices.Clone(t.messages)
	for n := range messages {
		if runes := []rune(messages[n].Content); len(runes) > mostRead {
			messages[n].Content = string(runes[:mostRead])
		}
	}
	written, _ := recall.TurnText(messages)
	return written
}

// said adds a message, which begins a turn if it is the user's.
func (d *dialog) said(session string, at time.Time, role memory.Role, content string) {
	d.messages++
	seq := int64(d.messages)
	if role == memory.RoleUser {
		d.turns = append(d.turns, &turn{seq: seq, session: session, saidAt: at, question: content})
	}
	if len(d.turns) == 0 {
		return // a greeting
	}
	last := d.turns[len(d.turns)-1]
	last.lastSeq = seq
	last.messages = append(last.messages, memory.Message{Role: role, Content: content})
}

type longMemEvalHistory struct {
	ID       string   `json:"question_id"`
	Dates    []string `json:"haystack_dates"`
	Names    []string `json:"haystack_session_ids"`
	Sessions [][]struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"haystack_sessions"`
}

// readLongMemEval reads histories of LongMemEval, each as one long chat.
func readLongMemEval(path string) ([]*dialog, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var raw []longMemEvalHistory
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []*dialog
	for _, h := range raw {
		d := &dialog{name: h.ID}
		if len(h.Dates) != len(h.Sessions) || len(h.Names) != len(h.Sessions) {
			return nil, fmt.Errorf("%s: %s has %d sessions, %d dates and %d names", path, h.ID, len(h.Sessions), len(h.Dates), len(h.Names))
		}
		order := make([]int, len(h.Sessions))
		for n := range order {
			order[n] = n
		}
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(h.Dates[a], h.Dates[b]) })
		for _, n := range order {
			at, err := time.Parse("2006/01/02 (Mon) 15:04", h.Dates[n])
			if err != nil {
				return nil, err
			}
			for _, m := range h.Sessions[n] {
				d.said(h.Names[n], at, memory.Role(m.Role), m.Content)
				at = at.Add(20 * time.Second)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// readOwn reads the dialogs of internal/proof/recall that are in English, the keyless embedder's language, as one long chat:
// their sessions in turn, so that the conversation leaves each dialog and comes back to it.
func readOwn(root string) ([]*dialog, error) {
	names := []string{"boat", "dentist", "family", "novel", "school", "server", "violin"}
	var sessions [][]ownSession
	most := 0
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, "internal/proof/recall/testdata", name+".txt"))
		if err != nil {
			return nil, err
		}
		found, err := parseOwn(name, string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sessions, most = append(sessions, found), max(most, len(found))
	}
	d := &dialog{name: "our own dialogs"}
	for round := range most {
		for n, name := range names {
			if round >= len(sessions[n]) {
				continue
			}
			for _, m := range sessions[n][round] {
				d.said(name, m.at, m.role, m.content)
			}
		}
	}
	return []*dialog{d}, nil
}

type ownSession []ownMessage

type ownMessage struct {
	at      time.Time
	role    memory.Role
	content string
}

// parseOwn reads the sessions of a dialog; internal/proof/recall describes the form.
func parseOwn(name, content string) ([]ownSession, error) {
	var sessions []ownSession
	var at time.Time
	for line := range strings.Lines(content) {
		mark, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch mark {
		case "#":
			var err error
			if at, err = time.Parse("2006-01-02 15:04", rest); err != nil {
				return nil, err
			}
			sessions = append(sessions, nil)
		case "U:", "A:":
			if len(sessions) == 0 {
				return nil, fmt.Errorf("%s begins without a date", name)
			}
			role := map[string]memory.Role{"U:": memory.RoleUser, "A:": memory.RoleAssistant}[mark]
			last := &sessions[len(sessions)-1]
			*last = append(*last, ownMessage{at: at, role: role, content: rest})
			at = at.Add(30 * time.Second)
		}
	}
	return sessions, nil
}

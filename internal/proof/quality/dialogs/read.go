package dialogs

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/memories"
)

// set is a collection of dialogs that are measured together.
type set struct {
	name    string
	dialogs []*dialog
	// asMemories: each message is a memory of its user, and questions are asked of memories.
	asMemories bool
}

// dialog is a chat with questions about it.
type dialog struct {
	name      string
	messages  []message
	questions []question
}

type message struct {
	id      string // of the collection
	session string
	role    string
	content string
	at      time.Time
	memory  string // what it is as a memory
}

// question names the messages that answer it, or, where the collection knows no better, their sessions.
type question struct {
	text     string
	messages []string
	sessions []string
	at       time.Time
}

// Our own dialogs, in LoCoMo's form: invented people and facts.
//
//go:embed testdata/own.json
var own []byte

// readSets reads the dialogs to measure: ours, unless others are named.
func readSets(o Options) (sets []*set, err error) {
	if o.LoCoMo == "" && o.LongMemEval == "" {
		ours, err := parseLoCoMo(own, true)
		return []*set{{name: "our own dialogs", dialogs: ours}}, err
	}
	if o.LoCoMo != "" {
		if sets, err = readLoCoMo(o.LoCoMo); err != nil {
			return nil, err
		}
	}
	if o.LongMemEval != "" {
		histories, err := readLongMemEval(o.LongMemEval)
		if err != nil {
			return nil, err
		}
		sets = append(sets, &set{name: "LongMemEval, sessions of a user with an assistant", dialogs: histories})
	}
	if o.LoCoMo != "" {
		sets = append(sets, memoriesOf(sets[0]))
	}
	return sets, nil
}

// readLoCoMo reads dialogs of two people, in two layouts: each utterance as a message of the user, and those of the second
// speaker as the assistant's.
func readLoCoMo(path string) (sets []*set, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for n, name := range []string{"LoCoMo, each utterance a user's message", "LoCoMo, its speakers as user and assistant"} {
		dialogs, err := parseLoCoMo(content, n == 1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		sets = append(sets, &set{name: name, dialogs: dialogs})
	}
	return sets, nil
}

type locomoDialog struct {
	Name         string `json:"sample_id"`
	Conversation map[string]json.RawMessage
	QA           []struct {
		Question string
		Evidence []string
	}
}

type locomoTurn struct {
	Speaker string
	ID      string `json:"dia_id"`
	Text    string
	Caption string `json:"blip_caption"`
}

func parseLoCoMo(content []byte, twoSpeakers bool) (all []*dialog, err error) {
	var raw []locomoDialog
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, err
	}
	for _, r := range raw {
		d := &dialog{name: r.Name}
		for n := 1; err == nil && r.Conversation[fmt.Sprintf("session_%d_date_time", n)] != nil; n++ {
			err = d.addSession(r, fmt.Sprint("session_", n), twoSpeakers)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		for _, q := range r.QA {
			if evidence := d.evidence(q.Evidence); len(evidence) > 0 {
				asked := d.messages[len(d.messages)-1].at.Add(24 * time.Hour)
				d.questions = append(d.questions, question{text: q.Question, messages: evidence, at: asked})
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// addSession adds the messages of a session. The caption of a photo is a part of its message, as LoCoMo's authors have it.
func (d *dialog) addSession(r locomoDialog, name string, twoSpeakers bool) error {
	var first, date string
	var turns []locomoTurn
	for key, into := range map[string]any{"speaker_a": &first, name + "_date_time": &date, name: &turns} {
		if raw := r.Conversation[key]; raw != nil {
			if err := json.Unmarshal(raw, into); err != nil {
				return err
			}
		}
	}
	at, err := time.Parse("3:04 pm on 2 January, 2006", date)
	for _, t := range turns {
		m := message{id: t.ID, session: name, role: "user", content: t.Text, at: at}
		m.memory = strings.TrimSpace(t.Speaker + " says: " + t.Text + " " + t.Caption)
		if t.Caption != "" {
			m.content += " [shares " + t.Caption + "]"
		}
		if twoSpeakers && t.Speaker != first {
			m.role = "assistant"
		}
		d.messages, at = append(d.messages, m), at.Add(20*time.Second)
	}
	return err
}

var locomoEvidence = regexp.MustCompile(`D0*(\d+):0*(\d+)`)

// evidence reads "D1:3; D2:04", and leaves out what is not in the dialog.
func (d *dialog) evidence(named []string) (ids []string) {
	for _, found := range locomoEvidence.FindAllStringSubmatch(strings.Join(named, " "), -1) {
		id := "D" + found[1] + ":" + found[2]
		if !slices.Contains(ids, id) && slices.ContainsFunc(d.messages, func(m message) bool { return m.id == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// memoriesOf has each utterance with its speaker as a memory, once.
func memoriesOf(s *set) *set {
	all := &set{name: "LoCoMo's utterances, each as a memory", asMemories: true}
	for _, d := range s.dialogs {
		known := &dialog{name: d.name, questions: d.questions}
		seen := map[string]bool{}
		for _, m := range d.messages {
			content := []rune(m.memory)
			m.content = string(content[:min(len(content), memories.MaxContent)])
			if !seen[m.content] {
				seen[m.content] = true
				known.messages = append(known.messages, m)
			}
		}
		all.dialogs = append(all.dialogs, known)
	}
	return all
}

type longMemEvalHistory struct {
	ID       string     `json:"question_id"`
	Asked    string     `json:"question_date"`
	Question []string   `json:"questions"`
	Answers  [][]string `json:"answer_session_ids"`
	Dates    []string   `json:"haystack_dates"`
	Sessions []string   `json:"haystack_session_ids"`
	Messages [][]struct {
		Role    string
		Content string
	} `json:"haystack_sessions"`
}

// readLongMemEval reads histories of a user with an assistant, with several questions each. It knows the sessions that
// answer a question.
func readLongMemEval(path string) (all []*dialog, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var raw []longMemEvalHistory
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, h := range raw {
		d, err := h.dialog()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, h.ID, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func (h longMemEvalHistory) dialog() (*dialog, error) {
	const layout = "2006/01/02 (Mon) 15:04"
	if len(h.Dates) != len(h.Messages) || len(h.Sessions) != len(h.Messages) {
		return nil, fmt.Errorf("%d sessions, %d dates and %d names", len(h.Messages), len(h.Dates), len(h.Sessions))
	}
	d := &dialog{name: h.ID}
	asked, err := time.Parse(layout, h.Asked)
	if err != nil {
		return nil, err
	}
	for n, session := range h.Messages {
		at, err := time.Parse(layout, h.Dates[n])
		if err != nil {
			return nil, err
		}
		for k, m := range session {
			id := fmt.Sprint(h.Sessions[n], ":", k)
			d.messages = append(d.messages, message{id: id, session: h.Sessions[n], role: m.Role, content: m.Content, at: at})
			at = at.Add(20 * time.Second)
		}
	}
	slices.SortStableFunc(d.messages, func(a, b message) int { return a.at.Compare(b.at) })
	for n, q := range h.Question {
		d.questions = append(d.questions, question{text: q, sessions: h.Answers[n], at: asked})
	}
	return d, nil
}

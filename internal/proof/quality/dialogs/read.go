package dialogs

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// set is a collection of dialogs that are measured together.
type set struct {
	name    string
	dialogs []*dialog
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
}

// question names the messages that answer it, or, where the collection knows no better, their sessions.
type question struct {
	text     string
	messages []string
	sessions []string
	at       time.Time
}

// asked is when a question is asked that has no date: a day after the last message.
func (d *dialog) asked() time.Time { return d.messages[len(d.messages)-1].at.Add(24 * time.Hour) }

type locomoDialog struct {
	Conversation map[string]json.RawMessage `json:"conversation"`
	QA           []struct {
		Question string   `json:"question"`
		Evidence []string `json:"evidence"`
	} `json:"qa"`
}

type locomoTurn struct {
	Speaker string `json:"speaker"`
	ID      string `json:"dia_id"`
	Text    string `json:"text"`
	Caption string `json:"blip_caption"`
}

var locomoEvidence = regexp.MustCompile(`D(\d+):(\d+)`)

// readLoCoMo reads dialogs of two people. Each utterance is a message of the user; with twoSpeakers those of the second
// speaker are the assistant's. The caption of a photo is a part of the message, as LoCoMo's authors have it.
func readLoCoMo(path string, twoSpeakers bool) (*set, error) {
	var raw []locomoDialog
	if err := readJSON(path, &raw); err != nil {
		return nil, err
	}
	s := &set{name: "LoCoMo, each utterance a user's message"}
	if twoSpeakers {
		s.name = "LoCoMo, its speakers as user and assistant"
	}
	for n, r := range raw {
		d := &dialog{name: fmt.Sprint("dialog ", n)}
		var first string
		if err := json.Unmarshal(r.Conversation["speaker_a"], &first); err != nil {
			return nil, err
		}
		known := map[string]bool{}
		for session := 1; ; session++ {
			name := fmt.Sprint("session_", session)
			date, ok := r.Conversation[name+"_date_time"]
			if !ok {
				break
			}
			at, err := locomoTime(date)
			if err != nil {
				return nil, err
			}
			var turns []locomoTurn
			if raw := r.Conversation[name]; raw != nil {
				if err := json.Unmarshal(raw, &turns); err != nil {
					return nil, err
				}
			}
			for _, t := range turns {
				m := message{id: t.ID, session: name, role: "user", content: t.Text, at: at}
				if t.Caption != "" {
					m.content += " [shares " + t.Caption + "]"
				}
				if twoSpeakers && t.Speaker != first {
					m.role = "assistant"
				}
				d.messages, at = append(d.messages, m), at.Add(20*time.Second)
				known[t.ID] = true
			}
		}
		for _, q := range r.QA {
			if evidence := locomoMessages(q.Evidence, known); len(evidence) > 0 {
				d.questions = append(d.questions, question{text: q.Question, messages: evidence, at: d.asked()})
			}
		}
		s.dialogs = append(s.dialogs, d)
	}
	return s, nil
}

func locomoTime(raw json.RawMessage) (time.Time, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return time.Time{}, err
	}
	return time.Parse("3:04 pm on 2 January, 2006", text)
}

// locomoMessages reads "D1:3; D2:04", and leaves out what is not in the dialog.
func locomoMessages(evidence []string, known map[string]bool) []string {
	var ids []string
	for _, e := range evidence {
		for _, found := range locomoEvidence.FindAllStringSubmatch(e, -1) {
			id := "D" + strings.TrimLeft(found[1], "0") + ":" + strings.TrimLeft(found[2], "0")
			if known[id] && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

type longMemEvalHistory struct {
	ID       string     `json:"question_id"`
	Asked    string     `json:"question_date"`
	Question []string   `json:"questions"`
	Answers  [][]string `json:"answer_session_ids"`
	Dates    []string   `json:"haystack_dates"`
	Sessions []string   `json:"haystack_session_ids"`
	Messages [][]struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"haystack_sessions"`
}

// readLongMemEval reads histories of a user with an assistant, with several questions each. It knows the sessions that
// answer a question.
func readLongMemEval(path string) (*set, error) {
	var raw []longMemEvalHistory
	if err := readJSON(path, &raw); err != nil {
		return nil, err
	}
	const layout = "2006/01/02 (Mon) 15:04"
	s := &set{name: "LongMemEval, sessions of a user with an assistant"}
	for _, h := range raw {
		if len(h.Dates) != len(h.Messages) || len(h.Sessions) != len(h.Messages) {
			return nil, fmt.Errorf("%s: %s has %d sessions, %d dates and %d names", path, h.ID, len(h.Messages), len(h.Dates), len(h.Sessions))
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
				d.messages = append(d.messages, message{
					id: fmt.Sprint(h.Sessions[n], ":", k), session: h.Sessions[n], role: m.Role, content: m.Content, at: at,
				})
				at = at.Add(20 * time.Second)
			}
		}
		slices.SortStableFunc(d.messages, func(a, b message) int { return a.at.Compare(b.at) })
		for n, q := range h.Question {
			d.questions = append(d.questions, question{text: q, sessions: h.Answers[n], at: asked})
		}
		s.dialogs = append(s.dialogs, d)
	}
	return s, nil
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// The dialogs are ours: invented people and facts.
//
//go:embed testdata/*.txt
var own embed.FS

// readOwn reads our own dialogs. A file is a dialog: "# 2026-03-03 18:20" begins a session, "U: " and "A: " a message,
// and "? question => 3" asks for something that is said in the third message, counted through all sessions.
func readOwn() (*set, error) {
	files, err := own.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	s := &set{name: "our own dialogs"}
	for _, file := range files {
		content, err := own.ReadFile("testdata/" + file.Name())
		if err != nil {
			return nil, err
		}
		d, err := parseOwn(strings.TrimSuffix(file.Name(), ".txt"), string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		s.dialogs = append(s.dialogs, d)
	}
	return s, nil
}

func parseOwn(name, content string) (*dialog, error) {
	d := &dialog{name: name}
	var at time.Time
	session := ""
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "":
		case "#":
			var err error
			if at, err = time.Parse("2006-01-02 15:04", rest); err != nil {
				return nil, err
			}
			session = rest
		case "U:", "A:":
			role := map[string]string{"U:": "user", "A:": "assistant"}[mark]
			d.messages = append(d.messages, message{
				id: fmt.Sprint(len(d.messages) + 1), session: session, role: role, content: rest, at: at,
			})
			at = at.Add(30 * time.Second)
		case "?":
			text, evidence, ok := strings.Cut(rest, " => ")
			if !ok {
				return nil, fmt.Errorf("no answer: %q", line)
			}
			d.questions = append(d.questions, question{text: text, messages: strings.Fields(evidence), at: d.asked()})
		default:
			return nil, fmt.Errorf("what is %q?", line)
		}
	}
	return d, nil
}

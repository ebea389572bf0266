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

	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

type set struct {
	name    string
	dialogs []*dialog
	// asMemories: each message is a memory of its user, and questions are asked of memories.
	asMemories bool
}

type dialog struct {
	name      string
	messages  []message
	questions []question
	asked     time.Time
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
	category int // LoCoMo's; 0 elsewhere
}

// Our own dialogs, in LoCoMo's form: invented people and facts.
//
//go:embed testdata/own.json
var own []byte

// pace is from one message to the next of a session.
const pace = 20 * time.Second

// readSets reads the dialogs to measure: ours, unless others are named.
func readSets(o Options) (sets []*set, err error) {
	if o.LoCoMo == "" && o.LongMemEval == "" {
		ours, err := parseLoCoMo(own)
		return []*set{{name: "our own dialogs", dialogs: ours}}, err
	}
	defer kit.Catch(&err)
	if o.LoCoMo != "" {
		all := readFile(o.LoCoMo, parseLoCoMo)
		sets = []*set{
			{name: "LoCoMo, each utterance a user's message", dialogs: with(all, asUsers)},
			{name: "LoCoMo, its speakers as user and assistant", dialogs: all},
			{name: "LoCoMo's utterances, each as a memory", dialogs: with(all, asMemories), asMemories: true},
		}
	}
	if o.LongMemEval != "" {
		all := readFile(o.LongMemEval, parseLongMemEval)
		sets = append(sets, &set{name: "LongMemEval, sessions of a user with an assistant", dialogs: all})
	}
	return sets, nil
}

func readFile(path string, parse func([]byte) ([]*dialog, error)) []*dialog {
	defer kit.In("%s", path)
	return kit.Must(parse(kit.Must(os.ReadFile(path))))
}

func with(dialogs []*dialog, change func([]message) []message) (all []*dialog) {
	for _, d := range dialogs {
		all = append(all, &dialog{d.name, change(slices.Clone(d.messages)), d.questions, d.asked})
	}
	return all
}

func asUsers(messages []message) []message {
	for n := range messages {
		messages[n].role = "user"
	}
	return messages
}

// asMemories has each utterance with its speaker as a memory, once.
func asMemories(messages []message) (once []message) {
	seen := map[string]bool{}
	for _, m := range messages {
		content := []rune(m.memory)
		m.content = string(content[:min(len(content), longterm.MaxContent)])
		if !seen[m.content] {
			seen[m.content] = true
			once = append(once, m)
		}
	}
	return once
}

// parseLoCoMo reads dialogs of two people. The utterances of the second speaker are the assistant's.
func parseLoCoMo(content []byte) (all []*dialog, err error) {
	var raw []struct {
		Name         string `json:"sample_id"`
		Conversation map[string]json.RawMessage
		QA           []struct {
			Question string
			Evidence []string
			Category int
		}
	}
	defer kit.Catch(&err)
	kit.Check(json.Unmarshal(content, &raw))
	for _, r := range raw {
		d := &dialog{name: r.Name}
		for n := 1; r.Conversation[fmt.Sprintf("session_%d_date_time", n)] != nil; n++ {
			d.addSession(r.Conversation, fmt.Sprint("session_", n))
		}
		for _, q := range r.QA {
			if evidence := d.evidence(q.Evidence); len(evidence) > 0 {
				d.asked = d.messages[len(d.messages)-1].at.Add(24 * time.Hour)
				d.questions = append(d.questions, question{text: q.Question, messages: evidence, category: q.Category})
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// addSession adds the messages of a session. The caption of a photo is a part of its message, as LoCoMo's authors have it.
func (d *dialog) addSession(conversation map[string]json.RawMessage, name string) {
	defer kit.In("%s", d.name)
	var first, date string
	var turns []struct {
		Speaker string
		ID      string `json:"dia_id"`
		Text    string
		Caption string `json:"blip_caption"`
	}
	for key, into := range map[string]any{"speaker_a": &first, name + "_date_time": &date, name: &turns} {
		if raw := conversation[key]; raw != nil {
			kit.Check(json.Unmarshal(raw, into))
		}
	}
	at := kit.Must(time.Parse("3:04 pm on 2 January, 2006", date))
	for _, t := range turns {
		m := message{id: t.ID, session: name, role: "user", content: t.Text, at: at}
		m.memory = strings.TrimSpace(t.Speaker + " says: " + t.Text + " " + t.Caption)
		if t.Caption != "" {
			m.content += " [shares " + t.Caption + "]"
		}
		if t.Speaker != first {
			m.role = "assistant"
		}
		d.messages, at = append(d.messages, m), at.Add(pace)
	}
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

// parseLongMemEval reads histories of a user with an assistant, with several questions each. It knows the sessions that
// answer a question. Sessions are in the order in which they begin.
func parseLongMemEval(content []byte) (all []*dialog, err error) {
	var raw []struct {
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
	defer kit.Catch(&err)
	kit.Check(json.Unmarshal(content, &raw))
	timeOf := func(date string) time.Time { return kit.Must(time.Parse("2006/01/02 (Mon) 15:04", date)) }
	for _, h := range raw {
		if len(h.Dates) != len(h.Messages) || len(h.Sessions) != len(h.Messages) {
			return nil, fmt.Errorf("%s: %d sessions, %d dates and %d names", h.ID, len(h.Messages), len(h.Dates), len(h.Sessions))
		}
		d := &dialog{name: h.ID, asked: timeOf(h.Asked)}
		begins := map[string]time.Time{}
		for n, session := range h.Messages {
			name := h.Sessions[n]
			begins[name] = timeOf(h.Dates[n])
			for k, m := range session {
				at := begins[name].Add(time.Duration(k) * pace)
				d.messages = append(d.messages, message{id: fmt.Sprint(name, ":", k), session: name, role: m.Role, content: m.Content, at: at})
			}
		}
		slices.SortStableFunc(d.messages, func(a, b message) int { return begins[a.session].Compare(begins[b.session]) })
		for n, q := range h.Question {
			d.questions = append(d.questions, question{text: q, sessions: h.Answers[n]})
		}
		all = append(all, d)
	}
	return all, nil
}

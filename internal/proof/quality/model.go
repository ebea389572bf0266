package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// The purposes of calls, as their metadata has them.
const (
	forReply       = "reply"
	forExtract     = "extract"
	forConsolidate = "consolidate"
	forEntities    = "entities"
	forVectors     = "embedding" // not a purpose: calls for vectors have none
)

// schemaNames are the schemas of the calls that ask for JSON.
var schemaNames = map[string]string{forExtract: "extracted_facts", forConsolidate: "decisions", forEntities: "entities"}

// canned is what the model answers during a suite. Each function may be nil, and may be called from several goroutines.
type canned struct {
	extract  func(*extraction) []fact
	byRule   bool                            // instead of extract: what the offline model finds by its rules
	decide   func(*consolidation) []decision // a candidate without a decision is added
	entities func(input string) string
	reply    func(request *offline.Request) string
	// before is called before each answer, which waits for its return.
	before func(purpose, input string)
}

// model is the offline model with canned answers.
type model struct {
	*offline.Listening
	now atomic.Pointer[canned]

	mu    sync.Mutex
	since time.Time // when now began
	odd   []string
}

// spent is what calls cost.
type spent struct{ calls, input, output int }

func startModel() (*model, error) {
	m := &model{}
	m.now.Store(&canned{})
	var err error
	m.Listening, err = offline.Start(offline.Options{Script: m.answer})
	return m, err
}

// play sets the answers from now on.
func (m *model) play(now canned) {
	m.now.Store(&now)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = time.Now()
}

// bills returns what was spent since play on memories, by purpose.
func (m *model) bills() map[string]spent {
	m.mu.Lock()
	defer m.mu.Unlock()
	bills := map[string]spent{}
	for _, r := range m.Requests() {
		purpose := r.Metadata["purpose"]
		if r.At.Before(m.since) || schemaNames[purpose] == "" {
			continue
		}
		one := bills[purpose]
		one.calls++
		one.input += text.Tokens(r.Instructions + "\n" + r.Text)
		one.output += text.Tokens(r.Sent)
		bills[purpose] = one
	}
	return bills
}

// irregular returns an error when a call was not as the contract has it, or was refused, and forgets it.
func (m *model) irregular() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	odd := m.odd
	m.odd = nil
	for _, refusal := range m.Refused() {
		odd = append(odd, fmt.Sprintf("a call was refused: %+v", refusal))
	}
	if len(odd) == 0 {
		return nil
	}
	return errors.New(strings.Join(odd, "; "))
}

func (m *model) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := fmt.Sprintf(format, args...); !slices.Contains(m.odd, one) {
		m.odd = append(m.odd, one)
	}
}

// answer is the script of the offline model. What it does not know is left to that model's own rules.
func (m *model) answer(r *offline.Request) offline.Answer {
	now, purpose := m.now.Load(), r.Metadata["purpose"]
	if r.Kind == offline.KindEmbedding {
		purpose = forVectors
	}
	if now.before != nil {
		now.before(purpose, r.Text)
	}
	if purpose != forVectors {
		m.lookAt(r, purpose)
	}
	return offline.Answer{Text: m.given(now, purpose, r)}
}

func (m *model) given(now *canned, purpose string, r *offline.Request) string {
	switch purpose {
	case forExtract:
		if now.byRule {
			return "" // the offline model has its own
		}
		return m.extracted(now, r.Text)
	case forConsolidate:
		return m.decided(now, r.Text)
	case forEntities:
		if now.entities != nil {
			return now.entities(r.Text)
		}
		return `{"entities":[],"relationships":[]}`
	case forReply:
		if now.reply != nil {
			return now.reply(r)
		}
		return "Noted."
	}
	return ""
}

// lookAt keeps what the contract forbids.
func (m *model) lookAt(r *offline.Request, purpose string) {
	var body struct {
		Text struct {
			Format struct {
				Type, Name string
				Strict     bool
			}
		}
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		m.note("a body cannot be read: %v", err)
	}
	switch format, name := body.Text.Format, schemaNames[purpose]; {
	case purpose == "":
		m.note("a call without a purpose")
	case r.Store:
		m.note("%s: it is to be stored", purpose)
	case name != "" && (format.Type != "json_schema" || format.Name != name || !format.Strict):
		m.note("%s: no strict schema with the name %s: %+v", purpose, name, format)
	}
}

// line is a message of an extraction's input.
type line struct{ alias, date, text string }

// extraction is the input of an extraction.
type extraction struct {
	text     string
	messages []line // the new ones
}

// consolidation is the input of a consolidation: texts by alias.
type consolidation struct {
	text                 string
	candidates, memories []line
}

var aliased = regexp.MustCompile(`^(?:[-*] )?([UACM]\d+)(?: \[([^\]]*)\])?: ?(.*)$`)

// readLines returns the messages that begin with an alias with one of the letters, each with what follows it.
func readLines(input, letters string) (lines []line) {
	for one := range strings.SplitSeq(input, "\n") {
		if found := aliased.FindStringSubmatch(one); found != nil && strings.ContainsRune(letters, rune(found[1][0])) {
			lines = append(lines, line{alias: found[1], date: found[2], text: found[3]})
		} else if len(lines) > 0 {
			lines[len(lines)-1].text += "\n" + one
		}
	}
	for n := range lines {
		lines[n].text = strings.TrimRight(lines[n].text, "\n ")
	}
	return lines
}

const newMessages = "\nNEW MESSAGES"

func (m *model) extracted(now *canned, input string) string {
	_, fresh, found := strings.Cut("\n"+input, newMessages)
	if !found {
		m.note("an extraction without NEW MESSAGES")
	}
	asked := &extraction{text: input, messages: readLines(fresh, "UA")}
	facts := []fact{}
	if now.extract != nil {
		facts = append(facts, now.extract(asked)...)
	}
	return encode(map[string]any{"facts": facts})
}

func (m *model) decided(now *canned, input string) string {
	asked := &consolidation{text: input}
	for _, one := range readLines(input, "CM") {
		one.text, _, _ = strings.Cut(one.text, "\n\n")
		if one.alias[0] == 'C' {
			asked.candidates = append(asked.candidates, one)
		} else {
			asked.memories = append(asked.memories, one)
		}
	}
	if len(asked.candidates) == 0 || len(asked.memories) == 0 {
		m.note("a consolidation of %d candidates and %d memories", len(asked.candidates), len(asked.memories))
	}
	decisions := []decision{}
	if now.decide != nil {
		decisions = append(decisions, now.decide(asked)...)
	}
	for _, c := range asked.candidates {
		if !slices.ContainsFunc(decisions, func(d decision) bool { return d.Candidate == c.alias }) {
			decisions = append(decisions, decision{Candidate: c.alias, Action: "ADD", Reason: "It is new."})
		}
	}
	return encode(map[string]any{"decisions": decisions})
}

func encode(value any) string {
	raw, _ := json.Marshal(value) // strings, numbers and lists
	return string(raw)
}

// fact is a proposal of an extraction.
type fact struct {
	Fact          string         `json:"fact"`
	Type          string         `json:"type"`
	Confidence    float64        `json:"confidence"`
	Horizon       string         `json:"horizon"`
	Durable       bool           `json:"durable"`
	Evidence      []string       `json:"evidence"`
	Quote         string         `json:"quote"`
	ValidFrom     *string        `json:"valid_from"`
	ValidTo       *string        `json:"valid_to"`
	Replaces      *string        `json:"replaces"`
	Entities      []entity       `json:"entities"`
	Relationships []relationship `json:"relationships"`
}

type entity struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type relationship struct {
	Source       string `json:"source"`
	Relationship string `json:"relationship"`
	Target       string `json:"target"`
}

// decision is what a consolidation decides on a candidate.
type decision struct {
	Candidate string  `json:"candidate"`
	Action    string  `json:"action"`
	Memory    *string `json:"memory"`
	Merged    *string `json:"merged"`
	Reason    string  `json:"reason"`
}

// keep is a fact as a good model proposes it: what to keep, and the words of the message that say it.
func keep(what, quote string) fact {
	return fact{Fact: what, Type: "fact", Confidence: 0.9, Horizon: "lasting", Quote: quote, Entities: []entity{}, Relationships: []relationship{}}
}

// from returns the fact with its evidence.
func (f fact) from(aliases ...string) fact {
	f.Evidence = aliases
	return f
}

// told proposes, for each new message with one of the phrases, the facts of that phrase.
func told(table map[string][]fact) func(*extraction) []fact {
	phrases := slices.Sorted(maps.Keys(table))
	return func(asked *extraction) (facts []fact) {
		for _, one := range asked.messages {
			for _, phrase := range phrases {
				if strings.Contains(one.text, phrase) {
					for _, f := range table[phrase] {
						facts = append(facts, f.from(one.alias))
					}
				}
			}
		}
		return facts
	}
}

package memory_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the results of the golden cases into testdata")

// A golden case is a text file of sections. A section is a header line, "-- name key=value … --", and
// the lines up to the next one. The section "want" is the result; -update writes it.
type goldenSection struct {
	name string
	keys map[string]string
	body string
}

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.Truef(t, err == nil && len(files) >= 80, "%d golden cases, %v", len(files), err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			checkGolden(t, file)
		})
	}
}

func checkGolden(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	given, want, _ := strings.Cut(string(raw), "-- want --\n")
	got := showInvisible(play(t, parseCase(t, given)))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(given+"-- want --\n"+got+"\n"), 0o600))
		return
	}
	assert.Equalf(t, strings.TrimSuffix(want, "\n"), got, "%s", file)
}

// goldenCase is what the sections of a file say.
type goldenCase struct {
	op       string
	limits   memory.Limits
	settings memory.Settings
	brief    memory.Brief
	rows     []memory.Message
	files    []memory.StoredFile
	question prompt.Question
	texts    map[string]string
	keys     map[string]map[string]string
}

func parseCase(t *testing.T, given string) goldenCase {
	c := goldenCase{limits: memory.DefaultLimits(), texts: map[string]string{}, keys: map[string]map[string]string{}}
	for _, s := range parseSections(t, given) {
		switch s.name {
		case "limits":
			c.limits = limitsOf(t, s)
		case "brief":
			c.brief = memory.Brief{
				Summary: s.body, Tokens: s.number(t, "tokens", text.Tokens(s.body)), Version: int64(s.number(t, "version", 1)),
				CoveredSeq: int64(s.number(t, "covered", 0)), ClearedSeq: int64(s.number(t, "cleared", 0)), Unreadable: s.keys["unreadable"] == "true",
			}
		case "chat":
			c.settings = memory.Settings{Strategy: memory.StrategyName(s.keys["strategy"]), MaxTurns: s.number(t, "max_turns", 0)}
		case "file":
			c.files = append(c.files, file(s.keys["path"], s.body))
		case "user", "assistant", "tool", "system":
			c.rows = append(c.rows, rowOf(t, s, int64(len(c.rows))+c.brief.CoveredSeq+1))
		case "parts":
			last := &c.rows[len(c.rows)-1]
			last.Content = prompt.ReplyText(last.Content, partsOf(t, s.body))
			last.Tokens = text.Tokens(last.Content)
		case "done":
			c.question.Done = partsOf(t, s.body)
		case "source":
			c.question.Sources = append(c.question.Sources, prompt.Source{Title: s.keys["title"], URL: s.keys["url"], Content: s.body})
		case "memories", "topic", "recall":
			c.question.Retrieved = append(c.question.Retrieved, retrieved(t, s))
		case "ask":
			c.question.Content = s.body
		case "build", "fold", "judge", "fitcap", "instructions", "condense":
			c.op = s.name
			c.keys["op"] = s.keys
		default:
			c.texts[s.name] = s.body
			c.keys[s.name] = s.keys
		}
	}
	return c
}

func rowOf(t *testing.T, s goldenSection, seq int64) memory.Message {
	m := row(int64(s.number(t, "seq", int(seq))), memory.Role(s.name), s.body)
	m.Tokens = s.number(t, "tokens", m.Tokens)
	if status := s.keys["status"]; status != "" {
		m.Status = memory.Status(status)
	}
	if to := s.number(t, "reply_to", 0); to > 0 {
		m.ReplyTo = rowID(int64(to))
	}
	m.Pinned = s.keys["pinned"] == "true"
	m.TimeZone = s.keys["zone"]
	if importance := s.keys["importance"]; importance != "" {
		value, err := strconv.ParseFloat(importance, 32)
		require.NoError(t, err)
		m.Importance = float32(value)
	}
	if at := s.keys["at"]; at != "" {
		when, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		m.CreatedAt = when
	}
	return m
}

// partsOf reads parts, each on a line.
func partsOf(t *testing.T, lines string) (parts []memory.Part) {
	for line := range strings.SplitSeq(lines, "\n") {
		var part memory.Part
		require.NoErrorf(t, json.Unmarshal([]byte(line), &part), "%s", line)
		parts = append(parts, part)
	}
	return parts
}

// retrieved is a section that was retrieved for the question; the key items=n is 1 where it is left out.
func retrieved(t *testing.T, s goldenSection) prompt.Section {
	section := prompt.Section{
		Text: s.body, Account: prompt.Account{Name: s.name, Tokens: text.Tokens(s.body), Items: s.number(t, "items", 1)}, How: s.keys["how"],
	}
	switch s.name {
	case "topic", "memories":
		section.IDs = []uuid.UUID{rowID(int64(s.number(t, "id", 1)))}
	case "recall":
		section.Seqs = []int64{int64(s.number(t, "seq", 1))}
	}
	return section
}

func limitsOf(t *testing.T, s goldenSection) memory.Limits {
	d := memory.DefaultLimits()
	return memory.Limits{
		KRawTurns:         s.number(t, "k", d.KRawTurns),
		MinTailTurns:      s.number(t, "min_tail", d.MinTailTurns),
		SummaryTokenCap:   s.number(t, "cap", d.SummaryTokenCap),
		PromptTokenBudget: s.number(t, "prompt", d.PromptTokenBudget),
		BridgeTokenBudget: s.number(t, "bridge", d.BridgeTokenBudget),
		ChunkThreshold:    s.number(t, "threshold", d.ChunkThreshold),
		FoldInputTokens:   s.number(t, "fold", d.FoldInputTokens),
		MaxHistoryTokens:  s.number(t, "history", d.MaxHistoryTokens),
		FileTokens:        s.number(t, "files", d.FileTokens),
		InputTokens:       s.number(t, "input", d.InputTokens),
	}
}

func (s goldenSection) number(t *testing.T, key string, otherwise int) int {
	value, ok := s.keys[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	require.NoErrorf(t, err, "%s", key)
	return n
}

// parseSections reads header lines and bodies. The key repeat=n writes a body n times, escaped=true
// reads it as the inside of a Go string.
func parseSections(t *testing.T, text string) []goldenSection {
	var all []goldenSection
	for line := range strings.Lines(text) {
		if inner, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(inner, " --\n") {
			fields := strings.Fields(strings.TrimSuffix(inner, " --\n"))
			s := goldenSection{name: fields[0], keys: map[string]string{}}
			for _, field := range fields[1:] {
				key, value, _ := strings.Cut(field, "=")
				s.keys[key] = strings.ReplaceAll(value, "+", " ")
			}
			all = append(all, s)
		} else if len(all) > 0 {
			all[len(all)-1].body += line
		}
	}
	for i := range all {
		all[i].body = bodyOf(t, all[i])
	}
	return all
}

func bodyOf(t *testing.T, s goldenSection) string {
	body := strings.TrimSuffix(s.body, "\n")
	if s.keys["escaped"] == "true" {
		read, err := strconv.Unquote(`"` + body + `"`)
		require.NoErrorf(t, err, "%q", body)
		body = read
	}
	if n := s.number(t, "repeat", 1); n > 1 {
		body = strings.TrimSpace(strings.Repeat(body+" ", n))
	}
	return body
}

func play(t *testing.T, c goldenCase) string {
	t.Helper()
	switch c.op {
	case "build":
		return playBuild(t, c)
	case "fold":
		plan, ok := brief.PlanFold(c.brief, memory.Turns(c.rows), c.limits.For(c.settings))
		if !ok {
			return "nothing to fold"
		}
		return showPlan(plan, c.brief.Summary)
	case "judge":
		refusal, ok := brief.Judge(c.texts["previous"], c.texts["next"])
		return fmt.Sprintf("ok: %v\nkey: %s\nsentence: %s", ok, refusal.Key, refusal.Sentence)
	case "fitcap":
		limit := goldenSection{keys: c.keys["op"]}.number(t, "cap", 0)
		fit := text.FitCap(c.texts["text"], limit)
		return fmt.Sprintf("tokens: %d\n---\n%s", text.Tokens(fit), fit)
	case "instructions":
		return playInstructions(c)
	case "condense":
		return brief.CondenseInstructions(c.limits.SummaryTokenCap)
	}
	t.Fatalf("a case without an operation")
	return ""
}

// playBuild treats rows that the brief covers as the kept messages of a hybrid chat. The key before=n is the number of
// turns in the brief; with it the result includes the sentence about coverage.
func playBuild(t *testing.T, c goldenCase) string {
	chat := memory.Chat{Settings: c.settings, Brief: c.brief, Files: c.files}
	covered := 0
	for covered < len(c.rows) && c.rows[covered].Seq <= c.brief.CoveredSeq && c.settings.Strategy != memory.StrategySimple {
		covered++
	}
	chat.Kept, chat.Buffer = c.rows[:covered], c.rows[covered:]
	chat.PendingTurns = users(c.rows[covered:])
	chat.TotalTurns = chat.PendingTurns + goldenSection{keys: c.keys["op"]}.number(t, "before", 0)
	p := prompt.Build(chat, c.question, c.limits)
	result := showJSON(t, p.Receipt)
	if c.keys["op"]["before"] != "" {
		result += "\ncoverage: " + prompt.Coverage(chat, p.Receipt)
	}
	return result + "\n---\n" + p.Input
}

func playInstructions(c goldenCase) string {
	task := brief.SummaryTask{Base: c.texts["base"], Cap: c.limits.SummaryTokenCap, Piece: brief.WholePiece(memory.Turns(c.rows))}
	if next, ok := c.texts["next"]; ok {
		task.Refused, _ = brief.Judge(c.texts["previous"], next)
	}
	return brief.SummaryInstructions(task)
}

func showPlan(p brief.Plan, summary string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seq %d to %d, turns %d, tokens %d, last %d, pieces %d", p.SeqFrom, p.SeqTo, p.Turns, p.Tokens,
		p.LastSummarizedMessageID[15], len(p.Pieces))
	for i, piece := range p.Pieces {
		fmt.Fprintf(&b, "\n--- piece %d, %d tokens\n%s", i+1, piece.Tokens, brief.FoldInput(summary, piece))
		summary = fmt.Sprintf("(the summary after piece %d)", i+1)
	}
	return b.String()
}

func showJSON(t *testing.T, v any) string {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// showInvisible writes what a reader of the file could not see as an escape.
func showInvisible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// instructions joins the main model's instructions with the chat's and the tool's.
func (s *Service) instructions(more ...string) string {
	all := slices.DeleteFunc(append([]string{s.Instructions}, more...), func(text string) bool { return text == "" })
	return strings.Join(all, "\n\n")
}

// instructionTokens counts the main model's instructions and the tool's. Its own never change and are counted
// once.
func (s *Service) instructionTokens(tool string) int {
	if tool == "" {
		return s.ownTokens()
	}
	return text.Tokens(s.instructions(tool))
}

// prompt builds every prompt, of replies and of previews. For a question it retrieves what belongs to it.
func (s *Service) prompt(
	ctx context.Context,
	user auth.Principal,
	chatID uuid.UUID,
	chat memory.Chat,
	question prompt.Question,
	variant Variant,
) prompt.Prompt {
	limits := s.Limits.Within(variant.Window)
	draft := prompt.Select(chat, limits)
	if question.Content != "" {
		question.Retrieved = s.retrieve(ctx, user, Query{
			ChatID: chatID, Content: question.Content, Chat: chat, Visible: draft.Shown(),
			ShownFrom: draft.ShownFrom(), Shown: draft.Kept(), Room: prompt.RetrievedRoom(limits),
		})
	}
	return draft.Build(question)
}

// reportMissing logs and counts prompts that were shortened: that lack turns which the model should see, or show texts
// cut. A simple chat, which shows only its newest turns, lacks none.
func (s *Service) reportMissing(ctx context.Context, chatID uuid.UUID, chat memory.Chat, built prompt.Prompt) {
	receipt := built.Receipt
	if receipt.BriefUnreadable {
		s.Metrics.UnreadableBriefs.Inc()
	}
	dropped := receipt.DroppedTurns
	if receipt.Strategy == memory.StrategySimple {
		dropped = 0
	}
	s.Metrics.DroppedTurns.Add(float64(dropped))
	var cuts []any
	for _, section := range slices.Sorted(maps.Keys(built.Cuts)) {
		s.Metrics.TruncatedPrompts.WithLabelValues(section).Inc()
		cuts = append(cuts, slog.Int(section, built.Cuts[section]))
	}
	sources := receipt.Section("sources")
	lacking := dropped > 0 || len(cuts) > 0 || receipt.BriefUnreadable || sources.Shortened+sources.LeftOut > 0
	if !lacking && receipt.LeftOutMessages == 0 && receipt.LeftOutFiles == 0 {
		return
	}
	level := slog.LevelWarn
	if !lacking {
		level = slog.LevelInfo // messages without room are named to the model, and older files rarely have any
	}
	s.Logger.LogAttrs(ctx, level, "prompt does not hold the whole conversation",
		slog.String("chat_id", chatID.String()), slog.Int("dropped_turns", dropped), slog.Group("cut_tokens", cuts...),
		slog.Int("left_out_messages", receipt.LeftOutMessages), slog.Int("left_out_files", receipt.LeftOutFiles),
		slog.Int("shortened_sources", sources.Shortened), slog.Int("left_out_sources", sources.LeftOut),
		slog.Bool("brief_unreadable", receipt.BriefUnreadable), slog.Int("pending_turns", chat.PendingTurns),
		slog.Int("brief_tokens", receipt.BriefTokens), slog.Int("tail_turns", receipt.TailTurns), slog.Int("tail_tokens", receipt.TailTokens),
		slog.Int("bridge_turns", receipt.BridgeTurns), slog.Int("bridge_tokens", receipt.BridgeTokens), slog.Int("file_tokens", receipt.FileTokens))
}

// PromptPreview describes the next prompt of a chat.
type PromptPreview struct {
	ChatID       uuid.UUID           `json:"chat_id"`
	Strategy     memory.StrategyName `json:"strategy"`
	ModelVariant string              `json:"model_variant"`
	Coverage     string              `json:"coverage" description:"Where the turns are: in the brief, word for word in the prompt, or in neither."`
	Sections     []prompt.Section    `json:"sections" nullable:"false"`
	Tokens       int                 `json:"tokens" description:"Of all sections together."`
	Receipt      prompt.Receipt      `json:"receipt"`
	Context      Context             `json:"context"`
	Budget       Window              `json:"budget"`
}

// Context describes a chat.
type Context struct {
	StartedAt     time.Time  `json:"started_at"`
	LastMessageAt *time.Time `json:"last_message_at"`
	// ToolName is the tool that started the chat; nil for none. ToolsUsed are all tools that sent messages.
	ToolName  *string  `json:"tool_name" description:"The tool that began the chat; null for a person."`
	ToolsUsed []string `json:"tools_used" nullable:"false" description:"All tools through which messages came."`
	Turns     int      `json:"turns" description:"Turns since the context was cleared last."`
	Messages  int64    `json:"messages"`
	// ClearedSeq and BriefSeq bound the messages in the stored brief.
	ClearedSeq int64 `json:"cleared_seq" description:"Messages up to this one were left behind when the context was cleared; 0 for none."`
	BriefSeq   int64 `json:"brief_seq" doc:"brief_seq"`
}

// Window is how the model's context window is divided, in tokens.
type Window struct {
	Window   int `json:"window"`
	Response int `json:"response" description:"A quarter of the window, at most 16000."`
	History  int `json:"history" description:"A third of the rest, at most 50000. The memory's own budgets are tighter."`
	Files    int `json:"files" description:"What is left, at most 100000; instructions, question and sources take their place from it."`
}

// PreviewQuery asks for a preview.
type PreviewQuery struct {
	ModelVariant string `query:"model_variant" description:"The model variant whose window counts; the first one configured when it is left out."`
	Content      string `query:"content" maxLength:"32000" description:"A message that might come next: what would be recalled for it is shown as well."`
}

// PreviewPrompt describes the next prompt of a chat, for a model variant ("" for the first) and a
// message; without one ("") nothing is retrieved for it.
func (s *Service) PreviewPrompt(ctx context.Context, user auth.Principal, chatID uuid.UUID, query PreviewQuery) (PromptPreview, error) {
	variant, err := s.variant(query.ModelVariant)
	if err != nil {
		return PromptPreview{}, err
	}
	content := strings.TrimSpace(query.Content)
	if problem := contentProblem(content); content != "" && problem != "" {
		return PromptPreview{}, invalid(map[string]any{"content": problem})
	}
	stored, err := s.Store.ReadChat(ctx, user, chatID)
	if err != nil {
		return PromptPreview{}, err
	}
	question := prompt.Question{Content: content, Instructions: s.instructions(stored.SystemPrompt)}
	built := s.prompt(ctx, user, chatID, stored.Chat, question, variant)
	preview := PromptPreview{
		ChatID: chatID, Strategy: built.Receipt.Strategy, ModelVariant: variant.Name, Coverage: prompt.Coverage(stored.Chat, built.Receipt),
		Sections: append([]prompt.Section{}, built.Sections...), Receipt: built.Receipt, Context: stored.context(), Budget: divided(variant.Window),
	}
	for _, section := range built.Sections {
		preview.Tokens += section.Tokens
	}
	return preview, nil
}

func (c *StoredChat) context() Context {
	described := Context{
		StartedAt:  c.StartedAt,
		ToolsUsed:  append([]string{}, c.ToolsUsed...),
		Turns:      c.TotalTurns,
		Messages:   c.Messages,
		ClearedSeq: c.Brief.ClearedSeq,
	}
	if c.Brief.Summary != "" {
		described.BriefSeq = c.Brief.CoveredSeq
	}
	if !c.LastMessageAt.IsZero() {
		described.LastMessageAt = &c.LastMessageAt
	}
	if c.ToolName != "" {
		described.ToolName = &c.ToolName
	}
	return described
}

func divided(window int) Window {
	b := memory.Divide(window)
	return Window{Window: window, Response: b.Response, History: b.History, Files: b.Files()}
}

// Retriever retrieves sections of the prompt for a question, for example with a search or a call of another model. It
// runs once the turn is stored, when the rest of the prompt is known.
type Retriever interface {
	// Section returns the name in package prompt of the section under which the receipt speaks of the lookup, also where
	// it found nothing or failed.
	Section() string
	// Applies reports whether prompts of the chat may have the section. Otherwise the receipt does not speak of it.
	Applies(query *Query) bool
	// Needed reports whether there may be something to retrieve. Otherwise Retrieve is not called and nothing is waited for.
	Needed(query *Query) bool
	// Retrieve returns sections with their names and without their headings: that of Section in any case, without text
	// when there is nothing to show, and others that it found. It has to quote the texts that people wrote. It should
	// return when ctx ends: later sections are not used. With an error it may still return sections that are worth showing.
	Retrieve(ctx context.Context, user auth.Principal, query Query) ([]prompt.Section, error)
}

// Query is the message for which a Retriever retrieves, and what its prompt shows in any case.
type Query struct {
	ChatID  uuid.UUID
	Content string // of the user's message
	Chat    memory.Chat
	// Visible are the messages that the prompt shows word for word, or cut.
	Visible []memory.Message
	// ShownFrom is the seq from which on the prompt shows the chat's turns, and Shown are the seqs of single messages
	// that it shows besides.
	ShownFrom int64
	Shown     []int64
	// Room is the most tokens that all retrieved sections may take together.
	Room int
	// Answer is shared by all lookups for the message.
	Answer *Answer
}

// Answer is whether a lookup has found for sure what a message is about: others do not wait for what takes long then.
type Answer struct {
	given chan struct{}
	once  sync.Once
	sure  bool
}

// Give says so. Only the first counts. A lookup that ends without has found nothing.
func (a *Answer) Give(sure bool) {
	a.once.Do(func() {
		a.sure = sure
		close(a.given)
	})
}

// Wait waits until one is given, and returns it; false when ctx ends.
func (a *Answer) Wait(ctx context.Context) bool {
	select {
	case <-a.given:
		return a.sure
	case <-ctx.Done():
		return false
	}
}

// LeftPrompt reports whether indexed turns of the chat may be out of the prompt: after the last clear, and before the
// first turn that is shown.
func (q *Query) LeftPrompt() bool {
	cleared := q.Chat.Brief.ClearedSeq
	return q.Chat.IndexedSeq > cleared && q.ShownFrom > cleared+1
}

// retrieve returns the sections that are retrieved for a question, with the missing ones. All lookups have a common
// deadline, RetrieveTimeout from now or somewhat more: see patience.
func (s *Service) retrieve(ctx context.Context, user auth.Principal, query Query) []prompt.Section {
	var sections []prompt.Section
	var needed []Retriever
	for _, retriever := range s.Retrievers {
		switch {
		case !retriever.Applies(&query):
		case retriever.Needed(&query):
			needed = append(needed, retriever)
		default:
			sections = append(sections, missing(retriever, ""))
		}
	}
	if len(needed) == 0 {
		return sections
	}
	query.Answer = &Answer{given: make(chan struct{})}
	if len(needed) == 1 {
		query.Answer.Give(false)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience())
	defer cancel()
	lookups := make([]chan []prompt.Section, len(needed))
	for i, retriever := range needed {
		lookups[i] = make(chan []prompt.Section, 1) // with room for the sections, so that a late lookup ends
		s.background.Go(func() { lookups[i] <- s.lookUp(ctx, retriever, user, query) })
	}
	for i, retriever := range needed {
		found, inTime := await(ctx, lookups[i])
		if !inTime {
			found = []prompt.Section{missing(retriever, lookupLate)}
		}
		for _, section := range found {
			s.Metrics.Retrievals.WithLabelValues(section.Name, resultOfLookup(section)).Inc()
		}
		sections = append(sections, found...)
	}
	s.slowest.Store(max(int64(time.Since(began)), s.slowest.Load()))
	prompt.FitRetrieved(sections, query.Room)
	return sections
}

// patience is how long a reply waits for its lookups: RetrieveTimeout, and on a machine or with an embedder that is busy four times as
// long as the slowest lookups, or the turns that were stored, took lately: a turn is stored just before its lookups, so the first on
// a busy machine are waited for, too. The time of one that is late is not known, so it counts as its deadline; four times
// RetrieveTimeout is the most, for an embedder or a Postgres that hangs.
func (s *Service) patience() time.Duration {
	return min(max(s.RetrieveTimeout, 4*time.Duration(s.slowest.Load())), 4*s.RetrieveTimeout)
}

// missing is the section of a retriever that found nothing or failed.
func missing(retriever Retriever, failure string) prompt.Section {
	return prompt.Section{Account: prompt.Account{Name: retriever.Section(), Failure: failure}}
}

// await returns the sections of a lookup, and whether it came before the deadline.
func await(ctx context.Context, lookup <-chan []prompt.Section) (found []prompt.Section, inTime bool) {
	select {
	case found = <-lookup:
		return found, true
	case <-ctx.Done():
	}
	select {
	case found = <-lookup: // both at once
		return found, true
	default:
		return nil, false
	}
}

// lookUp returns the sections of a retriever. An error or a panic becomes a section with a failure, so that the reply does not
// fail with it.
func (s *Service) lookUp(ctx context.Context, retriever Retriever, user auth.Principal, query Query) (found []prompt.Section) {
	var err error
	defer query.Answer.Give(false)
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic of type %T", broken)
		}
		if err != nil {
			if len(found) == 0 {
				found = []prompt.Section{missing(retriever, "")}
			}
			found[0].Failure = failureOfLookup(err)
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "not retrieved", slog.String("section", retriever.Section()), slog.Any("error", err))
		}
	}()
	found, err = retriever.Retrieve(ctx, user, query)
	return found
}

// The failures of a lookup in receipts and metrics.
const (
	lookupLate   = "late"
	lookupFailed = "failed"
	lookupDenied = "denied" // what there was found by words
)

func failureOfLookup(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return lookupLate
	}
	if _, denied := errors.AsType[*work.DeniedError](err); denied {
		return lookupDenied
	}
	return lookupFailed
}

func resultOfLookup(section prompt.Section) string {
	switch {
	case section.Failure != "":
		return section.Failure
	case section.Text == "":
		return "nothing"
	default:
		return "found"
	}
}

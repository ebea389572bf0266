package mcptools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
)

func (s *Server) addMemoryTools(to *mcp.Server) {
	addTool(to, "remember", keeping, s.remember)
	addTool(to, "list_memories", reading, s.listMemories)
	addTool(to, "forget_memory", deleting, s.forgetMemory)
	addTool(to, "what_is_known", reading, s.whatIsKnown)
}

type rememberInput struct {
	Text    string `json:"text" jsonschema:"One sentence that can be understood alone: The user prefers oat milk. 1 to 500 characters."`
	Type    string `json:"type,omitempty" jsonschema:"preference, fact, pattern or context; fact when it is left out."`
	Durable bool   `json:"durable,omitempty" jsonschema:"true keeps it however long it is not used."`
	Pinned  bool   `json:"pinned,omitempty" jsonschema:"true shows it in every thread, whatever that is about."`
}

type rememberOutput struct {
	memoryOutput
	Known bool `json:"known,omitempty" jsonschema:"Whether it was remembered already."`
}

type memoryOutput struct {
	MemoryID  string     `json:"memory_id"`
	Text      string     `json:"text"`
	Type      string     `json:"type"`
	Status    string     `json:"status" jsonschema:"active; inbox: not confirmed by the user; superseded: true once; archived: put away."`
	Pinned    bool       `json:"pinned,omitempty"`
	Since     *time.Time `json:"since,omitempty" jsonschema:"Since when it is true, where somebody said so."`
	Until     *time.Time `json:"until,omitempty" jsonschema:"Until when it was true."`
	UpdatedAt time.Time  `json:"updated_at"`
}

func memoryOf(found api.Memory) memoryOutput {
	return memoryOutput{
		MemoryID: found.ID.String(), Text: found.Content, Type: found.MemoryType, Status: found.Status, Pinned: found.Pinned,
		Since: found.ValidFrom, Until: found.ValidTo, UpdatedAt: found.UpdatedAt,
	}
}

// refusals are the answers for a text that may not be remembered.
var refusals = map[longterm.Reason]string{
	longterm.Secret: "must not hold a secret, such as a password or a key",
	longterm.Order:  "must be a fact about the user, not an order to an assistant",
	longterm.NoFact: "must be a fact about the user",
	longterm.Moment: "must matter tomorrow, too",
}

// remember proposes a memory. An assistant is not the user, whose inbox decides.
func (s *Server) remember(ctx context.Context, in rememberInput) (rememberOutput, error) {
	memory := api.NewMemory{Content: in.Text, Proposed: true}
	memory.Type, memory.Durable, memory.Pinned = nonZero(in.Type), nonZero(in.Durable), nonZero(in.Pinned)
	if err := api.Check(&memory); err != nil {
		return rememberOutput{}, calledText(err)
	}
	if problem := refusals[longterm.Refused(memory.Content)]; problem != "" {
		return rememberOutput{}, fault.With(fault.ValidationFailed, "The text cannot be remembered.", map[string]any{"text": problem})
	}
	stored, added, err := s.Memories.AddMemory(ctx, callerOf(ctx).user, memory)
	return rememberOutput{memoryOf(stored), !added}, err
}

// nonZero is nil for an argument that was left out.
func nonZero[T comparable](argument T) *T {
	if argument == *new(T) {
		return nil
	}
	return &argument
}

// calledText renames the field of a memory's words to the tool's argument.
func calledText(err error) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	renamed := *refused
	renamed.Details = maps.Clone(refused.Details)
	if problem, ok := renamed.Details["content"]; ok {
		delete(renamed.Details, "content")
		renamed.Details["text"] = problem
	}
	return &renamed
}

type listMemoriesInput struct {
	Query  string `json:"query,omitempty" jsonschema:"Words that the memories are about, at most 500 characters; all memories when it is left out."`
	Status string `json:"status,omitempty" jsonschema:"active, inbox, superseded, archived or all; active and inbox when it is left out."`
	Limit  int    `json:"limit,omitempty" jsonschema:"How many memories, 1 to 200; 50 when it is left out."`
	Cursor string `json:"cursor,omitempty" jsonschema:"The next_cursor of the page before."`
}

type listMemoriesOutput struct {
	Memories   []memoryOutput `json:"memories"`
	NextCursor string         `json:"next_cursor,omitempty" jsonschema:"Pass it on for the next page; missing after the last."`
}

func (s *Server) listMemories(ctx context.Context, in listMemoriesInput) (listMemoriesOutput, error) {
	after, err := cursorOf[api.MemoryCursor](in.Cursor)
	query := api.MemoriesQuery{Text: in.Query, Status: in.Status, Limit: in.Limit, After: after}
	if err := cmp.Or(err, api.Check(&query)); err != nil {
		return listMemoriesOutput{}, err
	}
	page, err := s.Memories.ListMemories(ctx, callerOf(ctx).user, query)
	out := listMemoriesOutput{Memories: each(page.Memories, memoryOf)}
	if page.Next != nil {
		out.NextCursor = page.Next.String()
	}
	return out, err
}

type forgetMemoryInput struct {
	MemoryID string `json:"memory_id,omitempty" jsonschema:"The memory to forget, as list_memories names it."`
	Query    string `json:"query,omitempty" jsonschema:"Words that the memories are about: nothing is forgotten yet."`
	Token    string `json:"token,omitempty" jsonschema:"The token that a query was answered with, after the user agreed."`
}

type forgetMemoryOutput struct {
	Candidates []candidateOutput `json:"candidates,omitempty" jsonschema:"What would be forgotten."`
	Token      string            `json:"token,omitempty" jsonschema:"Forgets exactly these, for 10 minutes."`
	Forgotten  int               `json:"forgotten" jsonschema:"How many memories were forgotten."`
}

type candidateOutput struct {
	MemoryID string `json:"memory_id"`
	Text     string `json:"text"`
}

func (s *Server) forgetMemory(ctx context.Context, in forgetMemoryInput) (forgetMemoryOutput, error) {
	user := callerOf(ctx).user
	if in.MemoryID != "" && in.Query == "" && in.Token == "" {
		id, err := parseID("memory_id", in.MemoryID)
		if err == nil {
			err = s.Memories.DeleteMemory(ctx, user, id, api.MemoryDeletion{})
		}
		return forgetMemoryOutput{Forgotten: 1}, err
	}
	request := api.ForgetRequest{Query: nonZero(in.Query), Token: nonZero(in.Token)}
	if in.MemoryID != "" || (request.Query == nil) == (request.Token == nil) {
		return forgetMemoryOutput{}, wrongArgument("memory_id", "exactly one of memory_id, query and token is needed")
	}
	if err := api.Check(&request); err != nil {
		return forgetMemoryOutput{}, err
	}
	done, err := api.Forget(ctx, s.Memories, user, request)
	candidates := each(done.Candidates, func(candidate api.ForgetCandidate) candidateOutput {
		return candidateOutput{candidate.ID.String(), candidate.Content}
	})
	return forgetMemoryOutput{Candidates: candidates, Token: done.Token, Forgotten: *cmp.Or(done.Forgotten, new(int))}, err
}

type whatIsKnownInput struct {
	Subject string `json:"subject" jsonschema:"A name or a few words: Ilse, the cello, coffee. 1 to 100 characters."`
}

type whatIsKnownOutput struct {
	Memories      []memoryOutput `json:"memories" jsonschema:"What is remembered of it, the best matches first."`
	Relationships []string       `json:"relationships" jsonschema:"How it is related to others: what is true first."`
}

const mostKnown = 30

func (s *Server) whatIsKnown(ctx context.Context, in whatIsKnownInput) (whatIsKnownOutput, error) {
	query := api.MemoriesQuery{Text: in.Subject, Status: string(longterm.Active), Limit: mostKnown}
	related := api.GraphQuery{Entity: in.Subject}
	if query.Text == "" {
		return whatIsKnownOutput{}, wrongArgument("subject", "must not be empty")
	}
	if err := cmp.Or(api.Check(&query), api.Check(&related)); err != nil {
		return whatIsKnownOutput{}, err
	}
	user := callerOf(ctx).user
	page, err := s.Memories.ListMemories(ctx, user, query)
	if err != nil {
		return whatIsKnownOutput{}, err
	}
	found, err := s.Graph.ReadGraph(ctx, user, related)
	most := min(len(found.Relationships), mostKnown)
	return whatIsKnownOutput{Memories: each(page.Memories, memoryOf), Relationships: each(found.Relationships[:most], lineOf)}, err
}

// lineOf writes a relationship in one line: "User lives_in Porto (since 2026-03-01)".
func lineOf(edge graph.Edge) string {
	line := edge.Source + " " + edge.Relationship + " " + edge.Target
	switch {
	case edge.ValidTo != nil:
		return fmt.Sprintf("%s (until %s)", line, edge.ValidTo.Format(time.DateOnly))
	case !edge.Valid:
		return line + " (no longer)"
	case edge.ValidFrom != nil:
		return fmt.Sprintf("%s (since %s)", line, edge.ValidFrom.Format(time.DateOnly))
	}
	return line
}

package chat

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
)

// Send stores a user's message and returns a reader of the reply, which is generated whether or not it is read. The same
// ClientMessageID again returns a reader of the reply that it started, and a new reply when that one failed or was
// interrupted and nothing followed.
func (s *Service) Send(ctx context.Context, user auth.Principal, message Message) (*Reply, error) {
	arrived := time.Now()
	if err := message.normalize(); err != nil {
		return nil, err
	}
	variant, err := s.variant(message.Variant)
	if err != nil {
		return nil, err
	}
	if _, err := s.offered(&message, variant.Name); err != nil {
		return nil, err
	}
	if !s.admit() {
		return nil, shuttingDown()
	}
	defer s.starting.Done()
	req := sendRequest{message: message, variant: variant, arrived: arrived, turn: s.newTurn(user, message, variant.Name)}
	if message.Replaces != uuid.Nil {
		return s.replace(ctx, user, req)
	}
	started, err := s.startTurn(ctx, user, &req)
	if err == nil && started.isChanged() && started.Replaced.LastMessageID != *message.Last {
		return nil, fault.Changed(started.Replaced.LastMessageID)
	}
	return s.begin(ctx, user, req, started, err)
}

// begin starts the generation of a turn that was stored, or returns what there is instead.
func (s *Service) begin(ctx context.Context, user auth.Principal, req sendRequest, started StartedTurn, err error) (*Reply, error) {
	switch {
	case err != nil:
		return nil, err
	case started.Started:
		s.noteBeginning(user, &req.turn, &started.Chat)
		return s.launch(ctx, user, s.granted(req, started.Variant), started)
	case !started.Expired.IsZero():
		return nil, fault.Expired(req.turn.ChatID, started.Expired)
	case started.Earlier != nil:
		return s.sendAgain(ctx, user, req, *started.Earlier)
	case started.Running != uuid.Nil:
		return nil, inProgress(started.Running)
	default:
		return nil, fault.NoChat()
	}
}

// noteBeginning calls Begun for the first message of a chat, in the background.
func (s *Service) noteBeginning(user auth.Principal, turn *NewTurn, stored *memory.Chat) {
	if s.Begun == nil || stored.TotalTurns > 0 || turn.Replacement != nil {
		return
	}
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(s.lifetime, s.SaveTimeout)
		defer cancel()
		if err := s.Begun(ctx, user, turn.ChatID); err != nil && ctx.Err() == nil {
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "the beginning of a chat was not noted", slog.String("chat_id", turn.ChatID.String()), slog.Any("error", err))
		}
	})
}

// sendRequest is one call of Send.
type sendRequest struct {
	message Message
	turn    NewTurn
	variant Variant
	arrived time.Time
	done    []memory.Part // of a reply in whose place this one comes: what has been done is not done again
}

// startTurn does not end with the request: a client that disconnects meanwhile must not leave a stored turn without a
// generation.
func (s *Service) startTurn(ctx context.Context, user auth.Principal, req *sendRequest) (started StartedTurn, err error) {
	turn := &req.turn
	turn.ContentTokens = text.Tokens(turn.Content)
	if turn.SystemPromptRoom, err = s.systemPromptRoom(turn.ContentTokens, req.message.ToolInstructions, req.variant); err != nil {
		return started, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.SaveTimeout)
	defer cancel()
	started, err = s.storeTurn(ctx, user, *turn)
	if err != nil || !started.isCrowdedOut(turn) {
		return started, err
	}
	// It has more bytes than there is room for tokens, but hardly ever that many tokens.
	if tokens := text.Tokens(started.SystemPrompt); tokens > turn.SystemPromptRoom {
		return started, tooLong("system_prompt", turn.Variant, tokens, turn.SystemPromptRoom)
	}
	turn.SystemPromptRoom = len(started.SystemPrompt)
	return s.storeTurn(ctx, user, *turn)
}

// isCrowdedOut reports whether only the chat's system prompt keeps the turn from being started.
func (t *StartedTurn) isCrowdedOut(turn *NewTurn) bool {
	other := t.Earlier != nil && !turn.retries() // a turn that is retried finds itself
	return t.Crowded && t.Expired.IsZero() && !other && t.Running == uuid.Nil
}

// isChanged reports whether nothing but the chat's path may have kept the turn from being started.
func (t *StartedTurn) isChanged() bool {
	return !t.Started && t.Expired.IsZero() && t.Earlier == nil && t.Running == uuid.Nil && t.Replaced != nil
}

func (t *NewTurn) retries() bool { return t.Replacement != nil && t.Replacement.Retry }

// systemPromptRoom returns how many tokens the model's window leaves for the chat's system prompt, beside a message of that
// many. It is an error when the message has no room even without one.
func (s *Service) systemPromptRoom(tokens int, toolInstructions string, variant Variant) (int, error) {
	room := prompt.Room(tokens, s.instructionTokens(toolInstructions), s.Limits.Within(variant.Window))
	if room < 0 {
		return 0, tooLong("content", variant.Name, tokens, max(0, tokens+room))
	}
	return room, nil
}

func tooLong(field, variant string, tokens, room int) *fault.Error {
	return &fault.Error{Code: fault.ValidationFailed, Message: "The message does not fit the context window of the model variant.", Details: map[string]any{
		field: fmt.Sprintf("has %d tokens, at most %d fit the context window of the model variant %s", tokens, room, variant),
	}}
}

// ClientID is the key of a message's metadata that names the program which wrote it in the user's name: an OAuth client, or
// "mcp". Its text is no word of the user's, so nothing is remembered of it.
const ClientID = "client_id"

// metadataOf returns a message's metadata with the OAuth client that sent it.
func metadataOf(user auth.Principal, message Message) map[string]any {
	if user.ClientID == "" {
		return message.Metadata
	}
	named := map[string]any{}
	maps.Copy(named, message.Metadata)
	named[ClientID] = user.ClientID
	return named
}

func (s *Service) newTurn(user auth.Principal, message Message, variant string) NewTurn {
	turn := NewTurn{
		ChatID:          message.ChatID,
		NewChat:         message.ChatID == uuid.Nil && message.Replaces == uuid.Nil,
		Last:            message.Last,
		UserMessageID:   newID(),
		Content:         message.Content,
		Metadata:        metadataOf(user, message),
		ClientMessageID: message.ClientMessageID,
		MessageID:       newID(),
		Importance:      message.Importance,
		ToolName:        message.ToolName,
		Files:           newFiles(message.Files),
		Revive:          message.Revive,
		Variant:         variant,
		Variants:        s.variantNames(),
		Server:          s.id,
		Lease:           s.Lease,
	}
	if turn.NewChat {
		turn.ChatID, turn.Settings = newID(), message.settings(s.ChatDefaults)
	}
	return turn
}

// variant returns a model variant by its name; the first one for "".
func (s *Service) variant(name string) (Variant, error) {
	if name == "" {
		return s.Variants[0], nil
	}
	for _, variant := range s.Variants {
		if variant.Name == name {
			return variant, nil
		}
	}
	return Variant{}, fault.With(fault.UnknownModelVariant, "There is no such model variant.", map[string]any{"model_variants": s.variantNames()})
}

func (s *Service) variantNames() []string {
	names := make([]string, len(s.Variants))
	for i, variant := range s.Variants {
		names[i] = variant.Name
	}
	return names
}

// newID returns a UUIDv7, so that rows made together are close to each other in the index.
func newID() uuid.UUID {
	return uuid.Must(uuid.NewV7())
}

func inProgress(messageID uuid.UUID) error {
	return fault.With(fault.GenerationInProgress, "A reply is being generated for this chat.", map[string]any{"message_id": messageID})
}

func shuttingDown() *fault.Error {
	return &fault.Error{Code: fault.ShuttingDown, Message: "The server is restarting. Try again in a moment.", RetryAfter: 2 * time.Second}
}

package chat

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/uuid"
)

// Send takes a user's message and gives the reply to read, which goes on being generated whether
// somebody reads it or not. The same ClientMessageID again joins or replays the reply it started, and
// tries again when that failed or was interrupted.
func (s *Service) Send(ctx context.Context, user auth.Principal, message Message) (*Reply, error) {
	arrived := time.Now()
	if err := message.normalize(); err != nil {
		return nil, err
	}
	if message.Variant == "" {
		message.Variant = s.Variants[0].Name
	}
	model, known := s.models[message.Variant]
	if !known {
		return nil, &fault.Error{Code: fault.UnknownModelVariant, Message: "There is no such model variant.",
			Details: map[string]any{"model_variants": s.variantNames()}}
	}
	if !s.enter() {
		return nil, shuttingDown()
	}
	defer s.starting.Done()
	ask := asked{message: message, model: model, arrived: arrived, turn: s.newTurn(message)}
	started, err := s.startTurn(ctx, user, ask.turn)
	switch {
	case err != nil:
		return nil, err
	case started.Started:
		return s.launch(ctx, user, ask, started)
	case started.Earlier != nil:
		return s.sentBefore(ctx, user, ask, *started.Earlier)
	case started.Running != uuid.Nil:
		return nil, inProgress(started.Running)
	default:
		return nil, chatNotFound()
	}
}

// asked is a message on its way to a reply.
type asked struct {
	message Message
	turn    NewTurn
	model   string
	arrived time.Time
}

// startTurn does not end with the request: a phone that loses its network at this moment must not leave
// a turn behind that is stored and that nobody generates.
func (s *Service) startTurn(ctx context.Context, user auth.Principal, turn NewTurn) (StartedTurn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.SaveTimeout)
	defer cancel()
	return s.Store.StartTurn(ctx, user, turn)
}

func (s *Service) newTurn(message Message) NewTurn {
	turn := NewTurn{
		ChatID:          message.ChatID,
		NewChat:         message.ChatID == uuid.Nil,
		UserMessageID:   newID(),
		Content:         message.Content,
		ContentTokens:   memory.Tokens(message.Content),
		Metadata:        message.Metadata,
		ClientMessageID: message.ClientMessageID,
		MessageID:       newID(),
		Variant:         message.Variant,
		Lease:           s.Lease,
	}
	if turn.NewChat {
		turn.ChatID = newID()
		turn.Title = Title(message.Content)
	}
	return turn
}

func (s *Service) variantNames() []string {
	names := make([]string, len(s.Variants))
	for i, variant := range s.Variants {
		names[i] = variant.Name
	}
	return names
}

// newID makes a UUIDv7, so that rows made together lie together in the index.
func newID() uuid.UUID {
	return uuid.Must(uuid.NewV7())
}

func inProgress(messageID uuid.UUID) error {
	return &fault.Error{Code: fault.GenerationInProgress, Message: "A reply is being generated for this chat.",
		Details: map[string]any{"message_id": messageID}}
}

func chatNotFound() error {
	return fault.New(fault.ChatNotFound, "There is no such chat.")
}

func shuttingDown() *fault.Error {
	return &fault.Error{Code: fault.ShuttingDown, Message: "The server is restarting. Try again in a moment.", RetryAfter: 2 * time.Second}
}

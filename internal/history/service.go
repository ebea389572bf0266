package history

import (
	"context"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
)

// Chats is what the Service needs of Postgres about chats. Everything is done with the user's rights, so
// that a chat of somebody else is one that does not exist. The methods refuse with fault.NoChat, and
// those that do not delete with fault.Expired as well.
type Chats interface {
	CreateChat(ctx context.Context, user auth.Principal, chat NewChat) (Chat, error)
	ListChats(ctx context.Context, user auth.Principal, query ListQuery) (ChatPage, error)
	FindChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Chat, error)
	ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change ChatChange) (Chat, error)
	DeleteChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) error
	// PruneChats deletes all chats whose last activity is older, in one statement; with DryRun it only counts.
	PruneChats(ctx context.Context, user auth.Principal, query PruneQuery) (Pruned, error)
	// ClearChat lets the context begin anew, all or nothing. It refuses with Busy while a reply runs.
	ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Cleared, error)
	ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query FilesQuery) ([]File, error)
}

// Messages is what the Service needs of Postgres about messages, as above; a message of somebody else is
// refused with NoMessage.
type Messages interface {
	ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query MessagesQuery) (MessagePage, error)
	ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change MessageChange) (Message, error)
	// DeleteMessage also sees to it that its words leave the brief. It refuses with Busy while the message
	// is a reply that runs.
	DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error
}

// Store is what the Service needs of Postgres.
type Store interface {
	Chats
	Messages
	Searches
}

// Config of a Service. All fields are required.
type Config struct {
	Store Store
}

// Service checks what users ask, fills in what they left out, and has it done. It keeps nothing itself
// and is safe for concurrent use.
type Service struct {
	store Store
}

// New makes a service.
func New(config Config) *Service {
	return &Service{store: config.Store}
}

// CreateChat makes a chat without messages.
func (s *Service) CreateChat(ctx context.Context, user auth.Principal, chat NewChat) (Chat, error) {
	if err := chat.complete(); err != nil {
		return Chat{}, err
	}
	return s.store.CreateChat(ctx, user, chat)
}

// ListChats gives a page of the user's chats, those with the latest activity first.
func (s *Service) ListChats(ctx context.Context, user auth.Principal, query ListQuery) (ChatPage, error) {
	if err := query.check(); err != nil {
		return ChatPage{}, err
	}
	return s.store.ListChats(ctx, user, query)
}

// FindChat gives one chat.
func (s *Service) FindChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Chat, error) {
	return s.store.FindChat(ctx, user, chatID)
}

// ChangeChat changes what the change names and nothing else.
func (s *Service) ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change ChatChange) (Chat, error) {
	if err := change.complete(); err != nil {
		return Chat{}, err
	}
	return s.store.ChangeChat(ctx, user, chatID, change)
}

// DeleteChat deletes a chat, expired or not, with everything that was made of it.
func (s *Service) DeleteChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) error {
	return s.store.DeleteChat(ctx, user, chatID)
}

// PruneChats deletes the user's old chats.
func (s *Service) PruneChats(ctx context.Context, user auth.Principal, query PruneQuery) (Pruned, error) {
	if err := query.check(); err != nil {
		return Pruned{}, err
	}
	return s.store.PruneChats(ctx, user, query)
}

// ClearChat lets a chat's context begin anew: no prompt and no brief holds what was said before. The
// messages stay stored.
func (s *Service) ClearChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (Cleared, error) {
	return s.store.ClearChat(ctx, user, chatID)
}

// ListFiles gives the files that came with a chat's messages, each content once, the latest first.
func (s *Service) ListFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query FilesQuery) ([]File, error) {
	return s.store.ListFiles(ctx, user, chatID, query)
}

// ListMessages gives a stretch of a chat's messages in their order.
func (s *Service) ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query MessagesQuery) (MessagePage, error) {
	if err := query.check(); err != nil {
		return MessagePage{}, err
	}
	return s.store.ListMessages(ctx, user, chatID, query)
}

// ChangeMessage changes how a message is rated; its words are as they were said.
func (s *Service) ChangeMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID, change MessageChange) (Message, error) {
	if err := change.check(); err != nil {
		return Message{}, err
	}
	return s.store.ChangeMessage(ctx, user, messageID, change)
}

// DeleteMessage deletes a message, with its files and, soon after, its words in the brief.
func (s *Service) DeleteMessage(ctx context.Context, user auth.Principal, messageID uuid.UUID) error {
	return s.store.DeleteMessage(ctx, user, messageID)
}

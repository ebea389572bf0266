package httpapi

import (
	"cmp"
	"net/http"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerLastEventID    = "Last-Event-ID"
	maxIdempotencyKey    = 255
)

// idempotencyNamespace is the namespace of client message ids that are derived from an Idempotency-Key. It must never
// change, or a message that is sent again would be taken for a new one.
var idempotencyNamespace = uuid.MustParse("0f7c3a8e-5d55-4c43-9b0e-3f6d1f2a7c61")

func messageRoutes() []route {
	forSending := parameters("Accept", "protocol", "UI stream", headerIdempotencyKey, headerLastEventID)
	forResuming := parameters(headerLastEventID, "after", "protocol", "UI stream")
	sent := object{"200": replyAnswer(true), "204": answer("The place in Last-Event-ID is the end of the reply: nothing is left to send.", nil)}
	sendLimits := []limit{(*Server).limitMessages, (*Server).limitLarge}
	return []route{
		{
			method: http.MethodPost, path: "/v1/message/first", id: "sendFirstMessage", parameters: forSending,
			answers: sent, limits: sendLimits,
			endpoint: endpoint{serve: (*Server).postFirstMessage, in: reflect.TypeFor[firstMessageRequest]()},
		},
		{
			method: http.MethodPost, path: "/v1/message", id: "sendMessage", parameters: forSending, answers: sent,
			limits: sendLimits, endpoint: endpoint{serve: (*Server).postMessage, in: reflect.TypeFor[messageRequest]()},
		},
		{
			method: http.MethodGet, path: "/v1/message/{chat_id}/stream", id: "resumeStream", parameters: forResuming,
			limits:   []limit{(*Server).withoutBody},
			answers:  object{"200": replyAnswer(false), "204": answer("Nothing is running, or the place is the end.", nil)},
			endpoint: endpoint{serve: (*Server).getStream},
		},
		{method: http.MethodPost, path: "/v1/message/{chat_id}/cancel", id: "cancelReply", endpoint: onID(stores.Cancel)},
		callRoute(),
	}
}

type messageFields struct {
	ModelVariant    string          `json:"model_variant,omitempty" nullable:"true" doc:"model_variant"`
	ClientMessageID *string         `json:"client_message_id,omitempty" format:"uuid" doc:"messageFields.client_message_id"`
	Sources         []prompt.Source `json:"sources,omitempty" nullable:"true" maxItems:"20" doc:"sources"`
	Metadata        map[string]any  `json:"metadata,omitempty" nullable:"true" doc:"messageFields.metadata"`
	Importance      *float64        `json:"importance,omitempty" nullable:"true" minimum:"0" maximum:"1" doc:"importance"`
	Files           []memory.File   `json:"files,omitempty" nullable:"true" maxItems:"20" doc:"files"`
	ToolName        string          `json:"tool_name,omitempty" nullable:"true" maxLength:"64" doc:"messageFields.tool_name"`

	Tools      *[]chat.ToolDeclaration `json:"tools,omitempty" nullable:"true" maxItems:"32" doc:"tools"`
	ToolChoice string                  `json:"tool_choice,omitempty" nullable:"true" enum:"auto,none,required" doc:"tool_choice"`
}

// firstMessageRequest is the body of POST /v1/message/first, with the settings of api.NewChat.
type firstMessageRequest struct {
	messageFields
	_              struct{}       `description:"A message that starts a chat. null is the same as leaving a field out, except where it says otherwise."`
	Content        string         `json:"content" minLength:"1" maxLength:"32000" description:"What the user says: 1 to 32000 characters after trimming."`
	Title          string         `json:"title,omitempty" nullable:"true" maxLength:"500" doc:"firstMessageRequest.title"`
	SystemPrompt   *string        `json:"system_prompt,omitempty" nullable:"true" maxLength:"32000" doc:"system_prompt"`
	Tags           []string       `json:"tags,omitempty" nullable:"true" doc:"firstMessageRequest.tags"`
	MemoryStrategy string         `json:"memory_strategy,omitempty" nullable:"true" enum:"summary,simple,hybrid" doc:"firstMessageRequest.memory_strategy"`
	TTLHours       api.Field[int] `json:"ttl_hours,omitzero" nullable:"true" minimum:"1" maximum:"87600" doc:"ttl_hours"`
	MaxTurns       api.Field[int] `json:"max_turns,omitzero" nullable:"true" minimum:"1" maximum:"100000" doc:"firstMessageRequest.max_turns"`
	Remember       *bool          `json:"remember,omitempty" nullable:"true" doc:"remember"`
	Topics         string         `json:"topics,omitempty" nullable:"true" enum:"auto,on,off" doc:"firstMessageRequest.topics"`
	Recall         string         `json:"recall,omitempty" nullable:"true" enum:"all,chat" doc:"chat.recall"`
}

type messageRequest struct {
	messageFields
	_              struct{}          `description:"A message that continues a chat. null is the same as leaving a field out, except where it says otherwise."`
	ChatID         *string           `json:"chat_id,omitempty" format:"uuid" nullable:"true" doc:"messageRequest.chat_id"`
	ContinuationID *string           `json:"continuation_id,omitempty" format:"uuid" nullable:"true" doc:"continuation_id"`
	Content        *string           `json:"content,omitempty" nullable:"true" minLength:"1" maxLength:"32000" doc:"messageRequest.content"`
	Replaces       *string           `json:"replaces,omitempty" format:"uuid" nullable:"true" doc:"replaces"`
	LastMessageID  api.Field[string] `json:"last_message_id,omitzero" format:"uuid" nullable:"true" doc:"last_message_id"`
	Revive         bool              `json:"revive,omitempty" nullable:"true" description:"true brings the chat back if it has expired."`
}

func (s *Server) postFirstMessage(c echo.Context) error {
	var body firstMessageRequest
	if err := s.readMessage(c, &body); err != nil {
		return err
	}
	settings, err := body.settings(s.config.ChatDefaults)
	if err != nil {
		return err
	}
	return s.send(c, &body.messageFields, chat.Message{Content: body.Content, NewChat: settings})
}

// settings checks the chat's settings as POST /v1/chats does.
func (b *firstMessageRequest) settings(defaults memory.ChatDefaults) (*chat.Settings, error) {
	settings := api.NewChat{
		Title: b.Title, SystemPrompt: b.SystemPrompt, Tags: b.Tags, MemoryStrategy: b.MemoryStrategy, TTLHours: b.TTLHours, MaxTurns: b.MaxTurns,
		Topics: b.Topics, Recall: b.Recall,
	}
	if b.ToolName != "" {
		settings.ToolName = &b.ToolName
	}
	if err := settings.Check(defaults); err != nil {
		return nil, err
	}
	orNone := func(field api.Field[int]) int { return *cmp.Or(field.Value, new(int)) }
	return &chat.Settings{
		Title: settings.Title, SystemPrompt: settings.SystemPrompt, Tags: settings.Tags, Strategy: memory.StrategyName(settings.MemoryStrategy),
		TTLHours: orNone(settings.TTLHours), MaxTurns: orNone(settings.MaxTurns),
		Topics: settings.Topics, Recall: settings.Recall, Temporary: b.Remember != nil && !*b.Remember,
	}, nil
}

func (s *Server) postMessage(c echo.Context) error {
	var body messageRequest
	if err := s.readMessage(c, &body); err != nil {
		return err
	}
	message, err := body.message()
	if err != nil {
		return err
	}
	return s.send(c, &body.messageFields, message)
}

// message reads what continues a chat, or changes it.
func (b *messageRequest) message() (message chat.Message, err error) {
	message.Revive, message.Regenerate = b.Revive, b.Replaces != nil && b.Content == nil
	if b.Content != nil {
		message.Content = *b.Content
	}
	if b.Replaces != nil {
		if message.Replaces, err = api.ParseID(*b.Replaces); err != nil || message.Replaces == uuid.Nil {
			return message, invalid(map[string]any{"replaces": "must be a uuid"})
		}
	}
	if message.Last, err = api.ReadLast(b.LastMessageID); err != nil {
		return message, err
	}
	if b.Replaces == nil || b.ChatID != nil || b.ContinuationID != nil {
		message.ChatID, err = b.chatID()
	}
	return message, err
}

// maxMessage is the longest body of a message with files, in bytes: 20 of 256 KiB, escaped as JSON. Everything but the
// files must fit maxBody.
const maxMessage = 12 << 20

// readMessage reads the body of a request that may bring files.
func (s *Server) readMessage(c echo.Context, into any) error {
	raw, err := s.readBody(c, maxMessage)
	if err != nil {
		return err
	}
	if len(raw) > maxBody {
		values, err := splitObject(raw)
		if err != nil || len(raw)-len(values["files"]) > maxBody {
			return bodyTooLarge(maxBody)
		}
	}
	return decodeObject(raw, into)
}

// chatID reads the chat to continue from either of its fields.
func (b *messageRequest) chatID() (uuid.UUID, error) {
	name, value := "chat_id", b.ChatID
	if value == nil {
		name, value = "continuation_id", b.ContinuationID
	}
	if value == nil {
		return uuid.Nil, invalid(map[string]any{"chat_id": "is missing"})
	}
	id, err := api.ParseID(*value)
	switch {
	case err != nil:
		return uuid.Nil, fault.New(fault.BadUUID, "The field "+name+" is not a uuid.")
	case b.ContinuationID != nil && !strings.EqualFold(*b.ContinuationID, *value):
		return uuid.Nil, invalid(map[string]any{"continuation_id": "must be the same as chat_id"})
	case id == uuid.Nil:
		return uuid.Nil, fault.NoChat() // to chat, this id means a new chat
	}
	return id, nil
}

// send adds the fields of the body to the message, sends it and answers with its reply, as events or as one object. A
// protocol that is named is one of events, so it takes precedence over the Accept header.
func (s *Server) send(c echo.Context, body *messageFields, message chat.Message) error {
	user := principal(c)
	if err := body.fill(&message, c.Request().Header, user.UserID); err != nil {
		return err
	}
	protocol, whole, err := asked(c.Request())
	if err != nil {
		return err
	}
	if whole && message.Resume != nil {
		message.Resume.After, message.Resume.Parts = 0, 0 // one object is always the whole reply
	}
	open := func() (*chat.Reply, error) { return s.config.Chat.Send(c.Request().Context(), user, message) }
	return s.answerReply(c, open, s.answerAs(c, protocol, whole))
}

// asked returns the form in which a reply is asked for: as events in a protocol, or whole as one object.
func asked(request *http.Request) (named protocol, whole bool, err error) {
	named, err = namedProtocol(request)
	return named, named == "" && prefersJSON(request.Header.Values(echo.HeaderAccept)), err
}

// answerAs answers with a reply in that form.
func (s *Server) answerAs(c echo.Context, protocol protocol, whole bool) func(*chat.Reply) (ended bool, err error) {
	return func(reply *chat.Reply) (bool, error) {
		if whole {
			return answerWhole(c, reply)
		}
		return s.answerEvents(c, reply, protocol)
	}
}

// fill adds the fields of the body and the headers to the message.
func (b *messageFields) fill(message *chat.Message, header http.Header, user uuid.UUID) (err error) {
	message.Variant, message.Metadata, message.ToolName = b.ModelVariant, b.Metadata, b.ToolName
	message.Importance, message.Sources, message.Files = b.Importance, b.Sources, b.Files
	message.Tools, message.ToolChoice = b.Tools, chat.ToolChoice(b.ToolChoice)
	if message.ClientMessageID, err = b.clientMessageID(header, user); err != nil {
		return err
	}
	message.Resume, err = lastEventID(header)
	return err
}

// clientMessageID is the body's, or else derived from the Idempotency-Key header; uuid.Nil without either.
func (b *messageFields) clientMessageID(header http.Header, user uuid.UUID) (uuid.UUID, error) {
	if b.ClientMessageID != nil {
		id, err := api.ParseID(*b.ClientMessageID)
		if err != nil || id == uuid.Nil {
			return uuid.Nil, invalid(map[string]any{"client_message_id": "must be a uuid"})
		}
		return id, nil
	}
	keys := header.Values(headerIdempotencyKey)
	if len(keys) == 0 {
		return uuid.Nil, nil
	}
	if len(keys) > 1 || !usableKey(keys[0]) {
		return uuid.Nil, fault.New(fault.BadRequest, "The header Idempotency-Key must be one value of 1 to 255 printable characters.")
	}
	if id, err := api.ParseID(keys[0]); err == nil && id != uuid.Nil {
		return id, nil
	}
	return uuid.NewSHA1(idempotencyNamespace, []byte(user.String()+keys[0])), nil
}

func usableKey(key string) bool {
	length := utf8.RuneCountInString(key)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return length > 0 && length <= maxIdempotencyKey && utf8.ValidString(key) && !strings.ContainsFunc(key, unprintable)
}

// lastEventID reads how far the client has read; nil when it does not say.
func lastEventID(header http.Header) (*chat.Cursor, error) {
	id := header.Get(headerLastEventID)
	if id == "" {
		return nil, nil //nolint:nilnil // no cursor is the usual case
	}
	cursor, err := chat.ParseCursor(id)
	if err != nil {
		return nil, err
	}
	return &cursor, nil
}

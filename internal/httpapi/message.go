package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

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

// idempotencyNamespace is where the client message ids that are derived from an Idempotency-Key live.
// It must never change: a changed one would take a message that is sent again for a new one.
var idempotencyNamespace = uuid.MustParse("0f7c3a8e-5d55-4c43-9b0e-3f6d1f2a7c61")

// firstMessageBody is the body of POST /v1/message/first.
type firstMessageBody struct {
	_               struct{}       `additionalProperties:"false"`
	Content         string         `json:"content" minLength:"1" maxLength:"32000" description:"What the user says: 1 to 32000 characters after trimming."`
	ModelVariant    *string        `json:"model_variant,omitempty" description:"Name of a model variant; the first one configured when it is left out."`
	ClientMessageID *string        `json:"client_message_id,omitempty" format:"uuid" description:"A uuid that the client made for this message. The same one again never calls the model twice: it joins or replays the reply."`
	Sources         []sourceBody   `json:"sources,omitempty" nullable:"true" maxItems:"20" description:"Passages retrieved for this question."`
	Metadata        map[string]any `json:"metadata,omitempty" nullable:"true" description:"The app's own facts about the message, at most 32 levels deep."`
	Files           []fileBody     `json:"files,omitempty" nullable:"true" maxItems:"20" description:"Text files that belong to the message. They are stored with the chat, each content once, and shown to the model as long as there is room."`
	ToolName        *string        `json:"tool_name,omitempty" nullable:"true" maxLength:"64" description:"The tool through which the message comes. A chat that begins with one expires 3 hours after its last turn and has a turn limit of 50."`
}

// messageBody is the body of POST /v1/message.
type messageBody struct {
	ChatID         *string `json:"chat_id,omitempty" format:"uuid" nullable:"true" description:"The chat to continue."`
	ContinuationID *string `json:"continuation_id,omitempty" format:"uuid" nullable:"true" description:"The same, by the name that tools know it by. One of the two is needed."`
	Revive         *bool   `json:"revive,omitempty" nullable:"true" description:"true brings the chat back if it has expired."`
	firstMessageBody
}

// sourceBody is one retrieved passage.
type sourceBody struct {
	_       struct{} `additionalProperties:"false"`
	Title   *string  `json:"title,omitempty" maxLength:"2000"`
	Content *string  `json:"content,omitempty" maxLength:"8000"`
	URL     *string  `json:"url,omitempty" maxLength:"2000"`
}

// fileBody is one file.
type fileBody struct {
	_       struct{} `additionalProperties:"false"`
	Path    string   `json:"path" minLength:"1" maxLength:"1024" description:"Its name, as the model is to know it."`
	Content string   `json:"content" maxLength:"262144" description:"Its text, at most 256 KiB of UTF-8."`
}

func (b *fileBody) fields() map[string]reader {
	return map[string]reader{"path": text(&b.Path), "content": text(&b.Content)}
}

func (b *firstMessageBody) fields() map[string]reader {
	return map[string]reader{
		"content":           text(&b.Content),
		"model_variant":     optionalText(&b.ModelVariant),
		"client_message_id": optionalText(&b.ClientMessageID),
		"sources":           list(&b.Sources, (*sourceBody).fields),
		"metadata":          freeObject(&b.Metadata),
		"files":             list(&b.Files, (*fileBody).fields),
		"tool_name":         optionalText(&b.ToolName),
	}
}

func (b *messageBody) fields() map[string]reader {
	fields := b.firstMessageBody.fields()
	fields["chat_id"] = optionalText(&b.ChatID)
	fields["continuation_id"] = optionalText(&b.ContinuationID)
	fields["revive"] = optionalValue(&b.Revive, "must be true or false")
	return fields
}

func (b *sourceBody) fields() map[string]reader {
	return map[string]reader{
		"title": optionalText(&b.Title), "content": optionalText(&b.Content), "url": optionalText(&b.URL),
	}
}

// postFirstMessage starts a chat.
func (s *Server) postFirstMessage(c echo.Context) error {
	raw, err := s.readMessage(c)
	if err != nil {
		return err
	}
	var body firstMessageBody
	if err := decodeObject(raw, body.fields()); err != nil {
		return err
	}
	return s.send(c, uuid.Nil, &body, false)
}

// postMessage continues a chat.
func (s *Server) postMessage(c echo.Context) error {
	raw, err := s.readMessage(c)
	if err != nil {
		return err
	}
	var body messageBody
	if err := decodeObject(raw, body.fields()); err != nil {
		return err
	}
	chatID, err := body.chatID()
	if err != nil {
		return err
	}
	return s.send(c, chatID, &body.firstMessageBody, body.Revive != nil && *body.Revive)
}

// maxMessage is the longest body of a message with files, in bytes: 20 of 256 KiB, escaped as JSON. All
// that is not files must fit maxBody.
const maxMessage = 12 << 20

// readMessage gives the body of a request that may bring files.
func (s *Server) readMessage(c echo.Context) ([]byte, error) {
	raw, err := s.readBodyUpTo(c, maxMessage)
	if err != nil || len(raw) <= maxBody {
		return raw, err
	}
	values, err := splitObject(raw)
	if err != nil || len(raw)-len(values["files"]) > maxBody {
		return nil, bodyTooLarge(maxBody)
	}
	return raw, nil
}

// chatID is the chat to continue, under either of its names.
func (b *messageBody) chatID() (uuid.UUID, error) {
	name, value := "chat_id", b.ChatID
	if value == nil {
		name, value = "continuation_id", b.ContinuationID
	}
	if value == nil {
		return uuid.Nil, invalid(map[string]any{"chat_id": "is missing"})
	}
	id, err := parseUUID(*value)
	switch {
	case err != nil:
		return uuid.Nil, fault.New(fault.BadUUID, "The field "+name+" is not a uuid.")
	case b.ContinuationID != nil && !strings.EqualFold(*b.ContinuationID, *value):
		return uuid.Nil, invalid(map[string]any{"continuation_id": "must be the same as chat_id"})
	case id == uuid.Nil:
		return uuid.Nil, fault.NoChat() // to chat it would mean a new one
	}
	return id, nil
}

// send hands the message to chat and answers with its reply, as events or as one object. A protocol
// that is named is one of events, so that it counts for more than the Accept header.
func (s *Server) send(c echo.Context, chatID uuid.UUID, body *firstMessageBody, revive bool) error {
	user := principal(c)
	message, err := body.message(c.Request().Header, chatID, user.UserID)
	if err != nil {
		return err
	}
	message.Revive = revive
	protocol, err := namedProtocol(c.Request())
	if err != nil {
		return err
	}
	whole := protocol == "" && prefersJSON(c.Request().Header.Values(echo.HeaderAccept))
	if whole && message.Resume != nil {
		message.Resume.After = 0 // one object is the whole reply, wherever its reader had stopped
	}
	place, err := s.streams.acquire(user.UserID)
	if err != nil {
		return err
	}
	defer place.leave()
	reply, err := s.config.Chat.Send(c.Request().Context(), user, message)
	if err != nil {
		return nothingToStream(c, err)
	}
	if whole {
		return s.answerWhole(c, reply, place)
	}
	return s.answerEvents(c, reply, place, protocol)
}

// message is what the body and the headers say together.
func (b *firstMessageBody) message(header http.Header, chatID, user uuid.UUID) (chat.Message, error) {
	message := chat.Message{
		ChatID: chatID, Content: b.Content, Variant: deref(b.ModelVariant), Metadata: b.Metadata, Sources: b.sources(),
		Files: b.files(), ToolName: deref(b.ToolName),
	}
	var err error
	if message.ClientMessageID, err = b.clientMessageID(header, user); err != nil {
		return chat.Message{}, err
	}
	if message.Resume, err = lastEventID(header); err != nil {
		return chat.Message{}, err
	}
	return message, nil
}

func (b *firstMessageBody) sources() []prompt.Source {
	sources := make([]prompt.Source, len(b.Sources))
	for i, source := range b.Sources {
		sources[i] = prompt.Source{Title: deref(source.Title), Content: deref(source.Content), URL: deref(source.URL)}
	}
	return sources
}

func (b *firstMessageBody) files() []memory.File {
	files := make([]memory.File, len(b.Files))
	for i, file := range b.Files {
		files[i] = memory.File{Path: file.Path, Content: file.Content}
	}
	return files
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// clientMessageID is the body's, or else made of the Idempotency-Key; uuid.Nil without either.
func (b *firstMessageBody) clientMessageID(header http.Header, user uuid.UUID) (uuid.UUID, error) {
	if b.ClientMessageID != nil {
		id, err := parseUUID(*b.ClientMessageID)
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
	if id, err := parseUUID(keys[0]); err == nil && id != uuid.Nil {
		return id, nil
	}
	return uuid.NewSHA1(idempotencyNamespace, []byte(user.String()+keys[0])), nil
}

func usableKey(key string) bool {
	length := utf8.RuneCountInString(key)
	if length == 0 || length > maxIdempotencyKey || !utf8.ValidString(key) {
		return false
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// parseUUID reads the one usual form of a uuid. uuid.Parse alone takes others, too.
func parseUUID(text string) (uuid.UUID, error) {
	if len(text) != 36 {
		return uuid.Nil, errors.New("not 36 characters long")
	}
	return uuid.Parse(text)
}

// lastEventID is the place that the client has reached; nil when it names none.
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

// nothingToStream answers chat.ErrNothingToStream with 204 and passes on every other error.
func nothingToStream(c echo.Context, err error) error {
	if errors.Is(err, chat.ErrNothingToStream) {
		return c.NoContent(http.StatusNoContent)
	}
	return err
}

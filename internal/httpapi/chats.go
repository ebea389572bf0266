package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/history"
)

// chatBody is the body of POST /v1/chats.
type chatBody struct {
	chatFields
	ToolName *string `json:"tool_name,omitempty" nullable:"true" minLength:"1" maxLength:"64" description:"The tool that begins the chat. ttl_hours and max_turns are then 3 and 50 unless they are given; null means none."`
}

// chatChangeBody is the body of PATCH /v1/chats/:chat_id.
type chatChangeBody struct {
	chatFields
	Revive *bool `json:"revive,omitempty" nullable:"true" description:"true brings an expired chat back, for its ttl_hours from now."`
}

// chatFields are what a user decides about a chat.
type chatFields struct {
	_              struct{}       `additionalProperties:"false"`
	Title          *string        `json:"title,omitempty" nullable:"true" maxLength:"500"`
	SystemPrompt   *string        `json:"system_prompt,omitempty" nullable:"true" maxLength:"32000" description:"Instructions for this chat alone; they follow the main model's."`
	Metadata       map[string]any `json:"metadata,omitempty" nullable:"true" description:"The app's own facts about the chat, at most 32 levels deep. They are replaced as a whole."`
	Tags           []string       `json:"tags,omitempty" nullable:"true" description:"At most 20 different ones, each 1 to 64 characters after trimming. They are replaced as a whole."`
	MemoryStrategy *string        `json:"memory_strategy,omitempty" nullable:"true" description:"How the chat is remembered; summary when it is left out or null."`
	TTLHours       *int           `json:"ttl_hours,omitempty" nullable:"true" minimum:"1" maximum:"87600" description:"Hours after its last turn at which the chat expires; null for never."`
	MaxTurns       *int           `json:"max_turns,omitempty" nullable:"true" minimum:"1" maximum:"100000" description:"Turn limit of its prompt; null for none."`

	named map[string]bool // the fields that the body names, those that are null included
}

func (b *chatFields) fields() map[string]reader {
	return map[string]reader{
		"title": optionalText(&b.Title), "system_prompt": optionalText(&b.SystemPrompt), "metadata": freeObject(&b.Metadata),
		"tags": texts(&b.Tags), "memory_strategy": optionalText(&b.MemoryStrategy),
		"ttl_hours": optionalValue(&b.TTLHours, "must be a whole number"), "max_turns": optionalValue(&b.MaxTurns, "must be a whole number"),
	}
}

func (b *chatBody) fields() map[string]reader {
	fields := b.chatFields.fields()
	fields["tool_name"] = optionalText(&b.ToolName)
	return fields
}

func (b *chatChangeBody) fields() map[string]reader {
	fields := b.chatFields.fields()
	fields["revive"] = optionalValue(&b.Revive, "must be true or false")
	return fields
}

// decodeNamed is decodeObject for bodies in which null is not the same as leaving a field out: it also
// gives the names that are there.
func decodeNamed(body []byte, fields map[string]reader) (named map[string]bool, err error) {
	if err := decodeObject(body, fields); err != nil {
		return nil, err
	}
	values, err := splitObject(body)
	named = make(map[string]bool, len(values))
	for name := range values {
		named[name] = true
	}
	return named, err
}

// field is what the body says of one field.
func field[T any](named map[string]bool, name string, value *T) history.Field[T] {
	return history.Field[T]{Set: named[name], Value: value}
}

// optionalValue reads a JSON value as T; otherwise says what is wrong with any other.
func optionalValue[T any](into **T, otherwise string) reader {
	return func(raw json.RawMessage, place string, found *findings) {
		*into = new(T)
		if json.Unmarshal(raw, *into) != nil {
			found.wrong[place] = otherwise
		}
	}
}

func texts(into *[]string) reader {
	return func(raw json.RawMessage, place string, found *findings) {
		if found.tooMany(raw, place) {
			return
		}
		var all []*string
		if json.Unmarshal(raw, &all) != nil {
			found.wrong[place] = "must be an array of strings"
			return
		}
		*into = make([]string, len(all))
		for i, element := range all {
			if element == nil {
				found.wrong[place] = "must be an array of strings"
				return
			}
			(*into)[i] = *element
		}
	}
}

// postChat makes a chat without messages.
func (s *Server) postChat(c echo.Context) error {
	raw, err := s.readOptionalBody(c)
	if err != nil {
		return err
	}
	var body chatBody
	if body.named, err = decodeNamed(raw, body.fields()); err != nil {
		return err
	}
	made, err := s.config.History.CreateChat(c.Request().Context(), principal(c), body.chat())
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/chats/"+made.ID.String())
	return writeJSON(c, http.StatusCreated, made)
}

// readOptionalBody is readBody for a body that may be left out, which is the same as {}.
func (s *Server) readOptionalBody(c echo.Context) ([]byte, error) {
	if c.Request().ContentLength == 0 {
		return []byte("{}"), nil
	}
	raw, err := s.readBody(c)
	if err == nil && len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	return raw, err
}

func (b *chatBody) chat() history.NewChat {
	return history.NewChat{
		Title: deref(b.Title), SystemPrompt: b.SystemPrompt, Metadata: b.Metadata, Tags: b.Tags, MemoryStrategy: deref(b.MemoryStrategy),
		TTLHours: field(b.named, "ttl_hours", b.TTLHours), MaxTurns: field(b.named, "max_turns", b.MaxTurns), ToolName: b.ToolName,
	}
}

// getChat gives one chat.
func (s *Server) getChat(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	found, err := s.config.History.FindChat(c.Request().Context(), principal(c), chatID)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, found)
}

// patchChat changes the fields that the body names.
func (s *Server) patchChat(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	raw, err := s.readBody(c)
	if err != nil {
		return err
	}
	var body chatChangeBody
	if body.named, err = decodeNamed(raw, body.fields()); err != nil {
		return err
	}
	changed, err := s.config.History.ChangeChat(c.Request().Context(), principal(c), chatID, body.change())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, changed)
}

func (b *chatChangeBody) change() history.ChatChange {
	return history.ChatChange{
		Title: field(b.named, "title", b.Title), SystemPrompt: field(b.named, "system_prompt", b.SystemPrompt),
		Metadata: field(b.named, "metadata", present(b.Metadata)), Tags: field(b.named, "tags", presentList(b.Tags)),
		MemoryStrategy: field(b.named, "memory_strategy", b.MemoryStrategy),
		TTLHours:       field(b.named, "ttl_hours", b.TTLHours), MaxTurns: field(b.named, "max_turns", b.MaxTurns),
		Revive: b.Revive != nil && *b.Revive,
	}
}

func present(metadata map[string]any) *map[string]any {
	if metadata == nil {
		return nil
	}
	return &metadata
}

func presentList(list []string) *[]string {
	if list == nil {
		return nil
	}
	return &list
}

// deleteChat deletes a chat, expired or not.
func (s *Server) deleteChat(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	if err := s.config.History.DeleteChat(c.Request().Context(), principal(c), chatID); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// postClear lets the chat's context begin anew.
func (s *Server) postClear(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	cleared, err := s.config.History.ClearChat(c.Request().Context(), principal(c), chatID)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, cleared)
}

// pruneBody is the body of POST /v1/chats/prune.
type pruneBody struct {
	_             struct{} `additionalProperties:"false"`
	OlderThanDays *int     `json:"older_than_days" nullable:"false" minimum:"1" maximum:"36500" description:"Chats whose last activity is at least so many days ago."`
	DryRun        *bool    `json:"dry_run,omitempty" nullable:"true" description:"true counts and deletes nothing."`
}

func (b *pruneBody) fields() map[string]reader {
	return map[string]reader{
		"older_than_days": optionalValue(&b.OlderThanDays, "must be a whole number"), "dry_run": optionalValue(&b.DryRun, "must be true or false"),
	}
}

// postPrune deletes old chats.
func (s *Server) postPrune(c echo.Context) error {
	raw, err := s.readBody(c)
	if err != nil {
		return err
	}
	var body pruneBody
	if err := decodeObject(raw, body.fields()); err != nil {
		return err
	}
	if body.OlderThanDays == nil {
		return invalid(map[string]any{"older_than_days": "is missing"})
	}
	pruned, err := s.config.History.PruneChats(c.Request().Context(), principal(c),
		history.PruneQuery{OlderThanDays: *body.OlderThanDays, DryRun: body.DryRun != nil && *body.DryRun})
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, pruned)
}

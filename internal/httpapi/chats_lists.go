package httpapi

import (
	"encoding/hex"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// queryReader reads query parameters and collects what is wrong with them.
type queryReader struct {
	values url.Values
	wrong  map[string]any // name -> what is wrong with it
}

func newQueryReader(c echo.Context) *queryReader {
	return &queryReader{values: c.QueryParams(), wrong: map[string]any{}}
}

// whole reads a number within bounds; nil when the parameter is not there.
func (q *queryReader) whole(name string, least, most int64) *int64 {
	if !q.values.Has(name) {
		return nil
	}
	value, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	switch {
	case (err != nil || value < least || value > most) && most == math.MaxInt64:
		q.wrong[name] = "must be a whole number of at least " + strconv.FormatInt(least, 10)
	case err != nil || value < least || value > most:
		q.wrong[name] = "must be a whole number between " + strconv.FormatInt(least, 10) + " and " + strconv.FormatInt(most, 10)
	}
	return &value
}

// limit reads how many are wanted; 0 when that is not said.
func (q *queryReader) limit(most int64) int {
	value := q.whole("limit", 1, most)
	if value == nil {
		return 0
	}
	return int(*value)
}

// truth reads true or false; false when the parameter is not there.
func (q *queryReader) truth(name string) bool {
	text := q.values.Get(name)
	if q.values.Has(name) && text != "true" && text != "false" {
		q.wrong[name] = "must be true or false"
	}
	return text == "true"
}

func (q *queryReader) err() error {
	if len(q.wrong) == 0 {
		return nil
	}
	return &fault.Error{Code: fault.ValidationFailed, Message: "Some query parameters are malformed or out of range.", Details: q.wrong}
}

// chatsBody is the answer to GET /v1/chats.
type chatsBody struct {
	Chats      []history.Chat `json:"chats" nullable:"false"`
	NextCursor *string        `json:"next_cursor" description:"Asks for the next page; null after the last."`
}

// getChats lists the user's chats.
func (s *Server) getChats(c echo.Context) error {
	params := newQueryReader(c)
	query := history.ListQuery{
		Limit: params.limit(history.MaxChats), Tag: params.values.Get("tag"), IncludeExpired: params.truth("include_expired"),
	}
	if err := params.err(); err != nil {
		return err
	}
	if cursor := params.values.Get("cursor"); cursor != "" {
		place, err := history.ParseCursor(cursor)
		if err != nil {
			return err
		}
		query.After = &place
	}
	page, err := s.config.History.ListChats(c.Request().Context(), principal(c), query)
	if err != nil {
		return err
	}
	body := chatsBody{Chats: page.Chats}
	if page.Next != nil {
		cursor := page.Next.Cursor()
		body.NextCursor = &cursor
	}
	return writeJSON(c, http.StatusOK, body)
}

// getMessages gives a stretch of a chat's messages.
func (s *Server) getMessages(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	params := newQueryReader(c)
	query := history.MessagesQuery{
		Limit: params.limit(history.MaxMessages), BeforeSeq: params.whole("before_seq", 0, math.MaxInt64), AfterSeq: params.whole("after_seq", 0, math.MaxInt64),
	}
	if err := params.err(); err != nil {
		return err
	}
	page, err := s.config.History.ListMessages(c.Request().Context(), principal(c), chatID, query)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, page)
}

// filesBody is the answer to GET /v1/chats/:chat_id/files.
type filesBody struct {
	Files []history.File `json:"files" nullable:"false"`
}

// getFiles lists the files that came with a chat's messages.
func (s *Server) getFiles(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	query, err := filesQuery(newQueryReader(c))
	if err != nil {
		return err
	}
	files, err := s.config.History.ListFiles(c.Request().Context(), principal(c), chatID, query)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, filesBody{Files: files})
}

func filesQuery(params *queryReader) (history.FilesQuery, error) {
	query := history.FilesQuery{Content: params.values.Get("include") == "content"}
	if params.values.Has("include") && !query.Content {
		params.wrong["include"] = "must be content"
	}
	if params.values.Has("sha256") {
		hash, err := hex.DecodeString(params.values.Get("sha256"))
		if err != nil || len(hash) != 32 {
			params.wrong["sha256"] = "must be 64 hexadecimal digits"
		}
		query.SHA256 = hash
	}
	return query, params.err()
}

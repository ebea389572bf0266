package httpapi

import (
	"bufio"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// exportBuffer is what goes out at once, in bytes. A client may take Config.WriteTimeout for as much.
const exportBuffer = 64 << 10

// exportKind is how one format of an export is sent.
type exportKind struct {
	mediaType, extension string
}

var exportKinds = map[string]exportKind{
	transfer.FormatLines:    {"application/x-ndjson", "jsonl"},
	transfer.FormatObject:   {mediaJSON, "json"},
	transfer.FormatMarkdown: {"text/markdown; charset=utf-8", "md"},
}

// getExport sends a whole chat as a file.
func (s *Server) getExport(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	params := newQueryReader(c)
	format := params.exportFormat()
	if err := params.err(); err != nil {
		return err
	}
	user := principal(c)
	place, err := s.transferPlace(user)
	if err != nil {
		return err
	}
	defer place.leave()
	export, err := s.config.Transfer.Export(c.Request().Context(), user, chatID)
	if err != nil {
		return err
	}
	return s.sendExport(c, export, format)
}

func (q *queryReader) exportFormat() string {
	if !q.values.Has("format") {
		return transfer.FormatLines
	}
	format := q.values.Get("format")
	if _, known := exportKinds[format]; !known {
		q.wrong["format"] = "must be jsonl, json or markdown"
	}
	return format
}

// transferPlace takes one of the places that a user has for streams: exports and imports are some.
func (s *Server) transferPlace(user auth.Principal) (*place, error) {
	place, err := s.streams.acquire(user.UserID)
	if err != nil {
		return nil, &fault.Error{
			Code: fault.OverRequestRateLimit, Message: "Too many replies, exports and imports are open at once.",
			Details: map[string]any{"max_streams": s.config.MaxStreamsPerUser},
		}
	}
	return place, nil
}

// sendExport copies the export to the client. Until the first bytes are on their way a failure is answered as such;
// afterwards it breaks the connection, so that nobody takes half a file for a whole one.
func (s *Server) sendExport(c echo.Context, export *transfer.Export, format string) error {
	liftDeadline(c)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, exportKinds[format].mediaType)
	header.Set(echo.HeaderContentDisposition, `attachment; filename="`+exportName(export)+"."+exportKinds[format].extension+`"`)
	header.Set(echo.HeaderCacheControl, "no-store")
	out := bufio.NewWriterSize(newEventWriter(c.Response()), exportBuffer)
	err := export.Write(c.Request().Context(), out, format)
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
		return nil
	case !c.Response().Committed:
		header.Del(echo.HeaderContentDisposition)
		return err
	}
	if c.Request().Context().Err() == nil {
		s.logFailure(c, http.StatusInternalServerError, err)
	}
	panic(http.ErrAbortHandler)
}

// maxNamePart is how much of a chat's title goes into a file's name.
const maxNamePart = 40

// exportName is made of letters, digits and hyphens alone, which every system and every header takes.
func exportName(export *transfer.Export) string {
	words := strings.FieldsFunc(strings.ToLower(export.Chat.Title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	name := strings.Join(append([]string{"chat"}, words...), "-")
	return strings.TrimRight(name[:min(len(name), maxNamePart)], "-") + "-" + export.Chat.ID[:8]
}

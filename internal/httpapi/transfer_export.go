package httpapi

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// mediaLines is the media type of lines of JSON.
const mediaLines = "application/x-ndjson"

// exportBuffer is how many bytes are written at once. A client may take Config.WriteTimeout for each of these pieces.
const exportBuffer = 64 << 10

// transferStreams is what there may be too many of: exports and imports count as streams.
const transferStreams = "replies, exports and imports"

// exportKinds has the media type and the file extension of each format.
var exportKinds = map[string]struct{ mediaType, extension string }{
	transfer.FormatLines:    {mediaLines, "jsonl"},
	transfer.FormatObject:   {mediaJSON, "json"},
	transfer.FormatMarkdown: {"text/markdown; charset=utf-8", "md"},
}

func transferRoutes() []route {
	return []route{
		exportRoute("/v1/chats/{chat_id}/export", "exportChat", object{
			mediaLines: object{}, mediaJSON: object{"schema": object{"type": "object"}}, "text/markdown": object{"schema": object{"type": "string"}},
		}, endpoint{serve: (*Server).exportChat, in: reflect.TypeFor[exportQuery]()}),
		importRoute("/v1/chats/import", "importChats", maxImport),
		exportRoute("/v1/export", "exportAccount", object{mediaLines: object{}}, endpoint{serve: (*Server).exportAccount}),
		importRoute("/v1/import", "importAccount", maxAccount),
	}
}

func exportRoute(path, id string, content object, serves endpoint) route {
	return route{
		method: http.MethodGet, path: path, id: id, answers: object{"200": answer("The file.", content, "Content-Disposition")},
		limits: []limit{(*Server).withoutBody}, endpoint: serves,
	}
}

func (s *Server) exportAccount(c echo.Context) error {
	return s.sendFile(c, func(ctx context.Context, user auth.Principal) (file, error) {
		return file{mediaLines, "throughline-" + time.Now().UTC().Format(time.DateOnly) + ".jsonl", func(out io.Writer) error {
			return s.config.Transfer.ExportAccount(ctx, user, out)
		}}, nil
	})
}

type exportQuery struct {
	Format string `query:"format" enum:"jsonl,json,markdown" default:"jsonl" description:"What the file is to be."`
}

func (s *Server) exportChat(c echo.Context) error {
	chatID, err := pathID(c)
	if err != nil {
		return err
	}
	var query exportQuery
	if err := s.readRequest(c, &query); err != nil {
		return err
	}
	return s.sendFile(c, func(ctx context.Context, user auth.Principal) (file, error) {
		export, err := s.config.Transfer.Export(ctx, user, chatID)
		if err != nil {
			return file{}, err
		}
		format := cmp.Or(query.Format, transfer.FormatLines)
		kind := exportKinds[format]
		return file{kind.mediaType, exportName(export) + "." + kind.extension, func(out io.Writer) error { return export.Write(ctx, out, format) }}, nil
	})
}

// file is what a user gets.
type file struct {
	mediaType, name string
	write           func(io.Writer) error
}

// sendFile opens a file in one of the user's stream slots, and writes it to the client as it is made. A failure before the first
// bytes is answered as an error; a later one breaks the connection, so that nobody takes half a file for a whole one.
func (s *Server) sendFile(c echo.Context, open func(context.Context, auth.Principal) (file, error)) error {
	user := principal(c)
	release, err := s.streams.acquire(user.UserID, transferStreams)
	if err != nil {
		return err
	}
	defer release()
	sent, err := open(c.Request().Context(), user)
	if err != nil {
		return err
	}
	liftDeadline(c)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, sent.mediaType)
	header.Set(echo.HeaderContentDisposition, `attachment; filename="`+sent.name+`"`)
	header.Set(echo.HeaderCacheControl, "no-store")
	out := bufio.NewWriterSize(newEventWriter(c.Response()), exportBuffer)
	if err = sent.write(out); err == nil {
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

// exportName consists of letters, digits and hyphens, which every system and every header accepts.
func exportName(export *transfer.Export) string {
	words := strings.FieldsFunc(strings.ToLower(export.Chat.Title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	name := strings.Join(append([]string{"chat"}, words...), "-")
	return strings.TrimRight(name[:min(len(name), maxNamePart)], "-") + "-" + export.Chat.ID[:8]
}

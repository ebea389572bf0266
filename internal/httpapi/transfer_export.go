package httpapi

import (
	"bufio"
	"cmp"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/transfer"
)

// exportBuffer is how many bytes are written at once. A client may take Config.WriteTimeout for each of these pieces.
const exportBuffer = 64 << 10

// transferStreams is what there may be too many of: exports and imports count as streams.
const transferStreams = "replies, exports and imports"

// exportKinds has the media type and the file extension of each format.
var exportKinds = map[string]struct{ mediaType, extension string }{
	transfer.FormatLines:    {"application/x-ndjson", "jsonl"},
	transfer.FormatObject:   {mediaJSON, "json"},
	transfer.FormatMarkdown: {"text/markdown; charset=utf-8", "md"},
}

func transferRoutes() []route {
	text := object{"schema": object{"type": "string"}}
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/export", id: "exportChat",
			answers: object{"200": answer("The file.", object{
				"application/x-ndjson": object{}, mediaJSON: object{"schema": object{"type": "object"}}, "text/markdown": text,
			}, "Content-Disposition")},
			limits:   []limit{(*Server).withoutBody},
			endpoint: endpoint{serve: (*Server).getExport, in: reflect.TypeFor[exportQuery]()},
		},
		{
			method: http.MethodPost, path: "/v1/chats/import", id: "importChats",
			parameters: parameters("Accept of an import"), content: importContent(),
			answers: object{"200": answer("What became of the file.", object{
				mediaJSON: object{"schema": schemaRef("ImportResult")}, mediaEventStream: text,
			})},
			endpoint: endpoint{serve: takeIn(maxImport)},
		},
	}
}

func accountRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/export", id: "exportAccount",
			answers: object{"200": answer("The file.", object{mediaLines: object{}}, "Content-Disposition")},
			limits:  []limit{(*Server).withoutBody}, endpoint: endpoint{serve: (*Server).exportAccount},
		},
		{
			method: http.MethodPost, path: "/v1/import", id: "importAccount",
			parameters: parameters("Accept of an import"), content: importContent(),
			answers: object{"200": answer("What became of the file.", object{
				mediaJSON: object{"schema": schemaRef("ImportResult")}, mediaEventStream: object{"schema": object{"type": "string"}},
			})},
			endpoint: endpoint{serve: takeIn(maxAccount)},
		},
	}
}

func (s *Server) exportAccount(c echo.Context) error {
	user := principal(c)
	release, err := s.streams.acquire(user.UserID, transferStreams)
	if err != nil {
		return err
	}
	defer release()
	return s.sendFile(c, mediaLines, "throughline-"+time.Now().UTC().Format(time.DateOnly)+".jsonl", func(out *bufio.Writer) error {
		return s.config.Transfer.ExportAccount(c.Request().Context(), user, out)
	})
}

type exportQuery struct {
	Format string `query:"format" enum:"jsonl,json,markdown" default:"jsonl" description:"What the file is to be."`
}

func (s *Server) getExport(c echo.Context) error {
	chatID, err := pathID(c)
	if err != nil {
		return err
	}
	var query exportQuery
	if err := s.readRequest(c, &query); err != nil {
		return err
	}
	user := principal(c)
	release, err := s.streams.acquire(user.UserID, transferStreams)
	if err != nil {
		return err
	}
	defer release()
	export, err := s.config.Transfer.Export(c.Request().Context(), user, chatID)
	if err != nil {
		return err
	}
	format := cmp.Or(query.Format, transfer.FormatLines)
	kind := exportKinds[format]
	return s.sendFile(c, kind.mediaType, exportName(export)+"."+kind.extension, func(out *bufio.Writer) error {
		return export.Write(c.Request().Context(), out, format)
	})
}

// sendFile writes a file to the client as write makes it. A failure before the first bytes is answered as an error; a
// later one breaks the connection, so that nobody takes half a file for a whole one.
func (s *Server) sendFile(c echo.Context, mediaType, name string, write func(*bufio.Writer) error) error {
	liftDeadline(c)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, mediaType)
	header.Set(echo.HeaderContentDisposition, `attachment; filename="`+name+`"`)
	header.Set(echo.HeaderCacheControl, "no-store")
	out := bufio.NewWriterSize(newEventWriter(c.Response()), exportBuffer)
	err := write(out)
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

// exportName consists of letters, digits and hyphens, which every system and every header accepts.
func exportName(export *transfer.Export) string {
	words := strings.FieldsFunc(strings.ToLower(export.Chat.Title), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	name := strings.Join(append([]string{"chat"}, words...), "-")
	return strings.TrimRight(name[:min(len(name), maxNamePart)], "-") + "-" + export.Chat.ID[:8]
}

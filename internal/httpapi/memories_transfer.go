package httpapi

import (
	"bufio"
	"fmt"
	"net/http"
	"reflect"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/history"
)

const (
	mediaLines = "application/x-ndjson"
	// maxMemoryImport is the longest file of memories, in bytes.
	maxMemoryImport = 32 << 20
)

func exportMemoriesRoute() route {
	return route{
		method: http.MethodGet, path: "/v1/memories/export", id: "exportMemories",
		answers: object{"200": answer("The file.", object{mediaLines: object{}}, "Content-Disposition")},
		limits:  []limit{(*Server).withoutBody}, endpoint: endpoint{serve: (*Server).exportMemories},
	}
}

func importMemoriesRoute() route {
	return route{
		method: http.MethodPost, path: "/v1/memories/import", id: "importMemories", content: importContent(),
		endpoint: endpoint{serve: (*Server).importMemories, out: reflect.TypeFor[history.MemoryImport](), status: http.StatusOK},
	}
}

// exportMemories sends all memories, page after page.
func (s *Server) exportMemories(c echo.Context) error {
	ctx, user := c.Request().Context(), principal(c)
	release, err := s.streams.acquire(user.UserID, transferStreams)
	if err != nil {
		return err
	}
	defer release()
	page, err := s.config.Memories.ExportMemories(ctx, user, nil)
	if err != nil {
		return err
	}
	return s.sendFile(c, mediaLines, "memories.jsonl", func(out *bufio.Writer) error {
		for len(page) > 0 {
			for _, memory := range page {
				if err := bundle.WriteMemory(out, memory); err != nil {
					return err
				}
			}
			last := page[len(page)-1]
			id, err := uuid.Parse(last.ID)
			if err != nil {
				return fmt.Errorf("export memories: %w", err)
			}
			if page, err = s.config.Memories.ExportMemories(ctx, user, &history.MemoryCursor{CreatedAt: last.CreatedAt, ID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

// importMemories reads the whole file, and then stores all of it.
func (s *Server) importMemories(c echo.Context) error {
	body, release, err := s.beginImport(c, maxMemoryImport)
	if err != nil {
		return err
	}
	defer release()
	file, err := s.config.Transfer.ReadMemories(c.Request().Context(), body)
	if err != nil {
		return err
	}
	done, err := s.config.Memories.ImportMemories(c.Request().Context(), principal(c), file.Records)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, history.MemoryImport{
		Format: string(file.Format), Imported: done.Imported, Skipped: done.Skipped, Refused: append([]bundle.RefusedMemory{}, file.Refused...),
	})
}

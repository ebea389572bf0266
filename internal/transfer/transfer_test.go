package transfer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// What the service does with a store is tested where Postgres is, in internal/postgres.

func TestReceivedFileHasNoName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := int64(0)
	file, err := receive(t.Context(), dir, iotest.OneByteReader(strings.NewReader("abc")), func(bytes int64) { seen = bytes })
	require.NoError(t, err)
	defer file.close()
	left, err := os.ReadDir(dir)
	assert.Truef(t, err == nil && len(left) == 0, "%v, %v", left, err)
	content, err := io.ReadAll(io.NewSectionReader(file.file, 0, file.size))
	assert.Truef(t, err == nil && string(content) == "abc" && seen == 3 && file.sum() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"%q, %v, %d, %s", content, err, seen, file.sum())
}

func TestWhatBreaksWhileReceivingIsPassedOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cut := errors.New("cut")
	_, err := receive(t.Context(), dir, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(cut)), func(int64) {})
	assert.ErrorIsf(t, err, cut, "%v", err)
	_, err = receive(t.Context(), filepath.Join(dir, "missing"), strings.NewReader(""), func(int64) {})
	assert.ErrorIsf(t, err, os.ErrNotExist, "%v", err)
	left, err := os.ReadDir(dir)
	assert.Truef(t, err == nil && len(left) == 0, "%v, %v", left, err)
}

// A changed id would import messages a second time: these must stay as they are.
func TestImportedIdsNeverChange(t *testing.T) {
	t.Parallel()
	user := auth.Principal{UserID: uuid.MustParse("0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31")}
	file, err := receive(t.Context(), t.TempDir(), strings.NewReader("abc"), func(int64) {})
	require.NoError(t, err)
	defer file.close()
	for format, want := range map[bundle.Format][2]string{
		bundle.FormatLines:   {"e0dea57a-578c-573a-84cc-be6f747579ba", "8c1bdea3-9608-5788-89c3-f196d2ff4b7f"},
		bundle.FormatObject:  {"e0dea57a-578c-573a-84cc-be6f747579ba", "8c1bdea3-9608-5788-89c3-f196d2ff4b7f"},
		bundle.FormatChatGPT: {"1d047e80-6535-5694-b3a3-5bb05a3f39fa", "ea2f0759-9a1c-59c8-b835-b18adb1b43b6"},
		bundle.FormatPlain:   {"96bab52c-44b5-512b-a136-318f6dfbc9cf", "c2726cea-9fa8-5e1f-ad21-3143badbc239"},
	} {
		work := &importRun{service: &Service{}, user: user, file: file, format: format}
		plan := work.plan(bundle.Chat{ID: "0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52"})
		writer := &chatWriter{chatID: plan.ID}
		assert.Equal(t, want, [2]string{plan.ID.String(), *writer.id(new("line 1"))}, format)
		assert.Truef(t, (plan.Original != uuid.Nil) == (format == bundle.FormatLines || format == bundle.FormatObject),
			"%s: original %s", format, plan.Original)
	}
}

func TestUnknownExportFormatIsAnError(t *testing.T) {
	t.Parallel()
	assert.Error(t, (&Export{}).Write(t.Context(), io.Discard, "pdf"), "pdf can be written")
}

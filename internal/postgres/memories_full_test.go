package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

func numbered(from, to int) []bundle.Memory {
	var records []bundle.Memory
	for n := from; n <= to; n++ {
		records = append(records, bundle.Memory{
			ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String(), Content: fmt.Sprintf("The user has cello number %d.", n),
			MemoryType: "fact", Status: "active", Confidence: new(1.0),
		})
	}
	return records
}

// The largest file is written in many short transactions. What is left of it after a failure is written when it is sent again, and
// nothing is there twice. A memory of the beginning may name one of the end.
func TestALargeImportGoesOnWhereItWasCut(t *testing.T) {
	t.Parallel()
	r := rememberingOf(newOwnBed(t))
	file := numbered(1, 2000)
	file[0].Status, file[0].SupersededBy = "superseded", &file[1999].ID
	cut, calls := errors.New("cut"), 0
	r.memories.Options.Embed = func(context.Context, pgx.Tx, uuid.UUID) error {
		if calls++; calls == 4 {
			return cut
		}
		return nil
	}
	done, err := r.memories.ImportMemories(t.Context(), r.user, file)
	is(t, tuple(errors.Is(err, cut), done.Imported), tuple(true, 3*importedAtOnce), "cut")
	testkit.Want(t, r.pool, done.Imported, "select count(*) from memories where user_id = $1", r.user.UserID)
	again := must(r.memories.ImportMemories(t.Context(), r.user, file))(t)
	is(t, again, api.ImportedMemories{Imported: 2000 - done.Imported, Skipped: done.Imported}, "again")
	testkit.Want(t, r.pool, true, `select n.content = 'The user has cello number 2000.' from memories m join memories n on n.id = m.superseded_by
		where m.content = 'The user has cello number 1.'`)
}

// A user has so many memories and no more, whoever adds them, and all is done quickly with them.
func TestAUserHasAtMostSoManyMemories(t *testing.T) {
	t.Parallel()
	r := rememberingOf(newOwnBed(t))
	began := time.Now()
	done := must(r.memories.ImportMemories(t.Context(), r.user, numbered(1, longterm.MaxMemories-1)))(t)
	is(t, done.Imported, longterm.MaxMemories-1, "imported")
	t.Logf("import: %s", time.Since(began))
	is(t, must(r.memories.ImportMemories(t.Context(), r.user, numbered(longterm.MaxMemories-2, longterm.MaxMemories+2)))(t),
		api.ImportedMemories{Imported: 1, Skipped: 2, Full: 2}, "over the limit")
	_, _, err := r.memories.AddMemory(t.Context(), r.user, api.NewMemory{Content: "The user plays the viola."})
	wantFault(t, err, fault.MemoriesFull, "one more")
	other := r.newUser()
	is(t, must(r.memories.ImportMemories(t.Context(), other, numbered(1, 3)))(t).Imported, 3, "another user's")

	began = time.Now()
	must(r.memories.ListMemories(t.Context(), r.user, api.MemoriesQuery{Text: "cello number 77", Status: api.StatusAll, Limit: 20}))(t)
	t.Logf("search: %s", time.Since(began))
	began = time.Now()
	r.candidates(r.user, "Which cello number does the user have?", recall.Vector{})
	t.Logf("retrieval: %s", time.Since(began))
	began = time.Now()
	exported := 0
	noError(t, r.memories.ExportMemories(t.Context(), r.user, func(bundle.Memory) error { exported++; return nil }))
	t.Logf("export of %d: %s", exported, time.Since(began))
	is(t, exported, longterm.MaxMemories, "exported")
}

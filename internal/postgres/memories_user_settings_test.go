package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func TestMemorySettings(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	read := func() history.MemorySettings {
		settings, err := r.memories.MemorySettings(t.Context(), r.user)
		if err != nil {
			t.Fatal(err)
		}
		return settings
	}
	if diff := cmp.Diff(history.MemorySettings{Enabled: true, Excluded: []string{}}, read()); diff != "" {
		t.Error(diff)
	}
	changes := []history.MemorySettingsChange{
		{},
		{TimeZone: history.To("Europe/Berlin"), Excluded: history.To([]string{"my divorce"})},
		{Enabled: new(false), Language: history.To("de")},
		{TimeZone: history.None[string](), Excluded: history.None[[]string]()},
	}
	for i, want := range []history.MemorySettings{
		{Enabled: true, Excluded: []string{}},
		{Enabled: true, TimeZone: new("Europe/Berlin"), Excluded: []string{"my divorce"}},
		{Enabled: false, TimeZone: new("Europe/Berlin"), Language: new("de"), Excluded: []string{"my divorce"}},
		{Enabled: false, Language: new("de"), Excluded: []string{}},
	} {
		if err := changes[i].Check(); err != nil {
			t.Fatal(err)
		}
		changed, err := r.memories.ChangeMemorySettings(t.Context(), r.user, changes[i])
		if diff := cmp.Diff([]history.MemorySettings{want, want}, []history.MemorySettings{changed, read()}); diff != "" || err != nil {
			t.Errorf("change %d: %v %s", i, err, diff)
		}
	}
	if others, err := r.memories.MemorySettings(t.Context(), r.newUser()); err != nil || !others.Enabled || others.Language != nil {
		t.Errorf("another user's: %+v, %v", others, err)
	}
}

func TestNothingNewWhereMemoryIsOff(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	kept := r.add("Plays the cello.")
	r.memories = NewUserMemories(r.pool, UserMemoriesOptions{Off: true, Rebuild: r.memories.options.Rebuild})
	_, _, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "x"})
	_, errImport := r.memories.ImportMemories(t.Context(), r.user, []bundle.Memory{{Content: "x"}})
	if fault.CodeOf(err) != fault.MemoryOff || fault.CodeOf(errImport) != fault.MemoryOff {
		t.Errorf("%v, %v", err, errImport)
	}
	if got := r.list(history.MemoriesQuery{Status: "all"}); !slices.Equal(got, []string{kept.Content}) {
		t.Errorf("listed %v", got)
	}
	if err := r.memories.DeleteMemory(t.Context(), r.user, kept.ID, history.MemoryDeletion{}); err != nil {
		t.Error(err)
	}
}

// The last of two changes wins, each is in the history, and a memory that is written many times at once is written once.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	const writers = 8
	var all sync.WaitGroup
	ids, failures := make([]uuid.UUID, writers), make([]error, writers)
	for n := range writers {
		all.Go(func() {
			stored, _, err := r.memories.AddMemory(t.Context(), r.user, history.NewMemory{Content: "Plays the cello."})
			if err == nil {
				_, err = r.memories.ChangeMemory(t.Context(), r.user, stored.ID, history.MemoryChange{Content: new(fmt.Sprintf("Plays cello number %d.", n))})
			}
			ids[n], failures[n] = stored.ID, err
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	edits := 0
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })) {
		for version, line := range r.actions(id) {
			if !strings.HasPrefix(line, fmt.Sprintf("%d ", version+1)) {
				t.Errorf("the history has a gap: %q at %d", line, version)
			}
			if strings.Contains(line, "EDIT") {
				edits++
			}
		}
	}
	if edits != writers {
		t.Errorf("%d of %d edits are in the history", edits, writers)
	}
}

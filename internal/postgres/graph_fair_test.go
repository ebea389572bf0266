package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func (b *bed) wantLinked(user auth.Principal, want int) {
	testkit.Want(b.t, b.pool, want, "select count(*) from memories where user_id = $1 and graph_version is not null", user.UserID)
}

// A memory at which the model fails has no entities, and costs no other of its user theirs; nor does one whose entities Postgres
// does not take.
func TestAPoisonedMemoryCostsNoOtherItsGraph(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]askerFunc{
		"the model fails": func(question work.Question) (string, error) {
			if strings.Contains(question.Input, "Poison") {
				return "", work.ErrBroken
			}
			return likes(question)
		},
		"it cannot be stored": likes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newOwnBed(t)
			b.exec(`create function public.no_poison() returns trigger language plpgsql as $$
				begin if new.name = 'Poison' then raise numeric_value_out_of_range; end if; return new; end $$`)
			b.exec("create trigger no_poison before insert on memory_entities for each row execute function public.no_poison()")
			for _, thing := range []string{"Neovim", "Poison", "Emacs", "Nano", "Helix"} {
				b.wrote(b.user, "Likes "+thing+".")
			}
			must(b.update(ask))(t)
			b.wantLinked(b.user, 5)
			testkit.Want(t, b.pool, 4, "select count(*) from memory_entities where not is_user")
			testkit.Want(t, b.pool, 0, "select count(*) from throughline.work where failures > 0")
		})
	}
}

// Users take turns, also from one run of the job to the next: however many memories one of them has, the others wait for one turn of
// theirs. Those for whom the model fails come last.
func TestUsersTakeTurnsInTheGraph(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.exec("insert into memory_users (user_id) values ($1)", b.user.UserID)
	b.exec("insert into memories (user_id, content) select $1, 'Has number ' || n from generate_series(1, 3000) n", b.user.UserID)
	others := []auth.Principal{b.newUser(), b.newUser(), b.newUser()}
	for _, other := range others {
		b.wrote(other, "Likes Vim.")
	}
	failing := 3
	for range failing {
		b.wrote(b.newUser(), "Likes what fails.")
	}
	const patience = 20 * time.Millisecond
	engine := b.grapher(func(question work.Question) (string, error) {
		time.Sleep(patience) // a turn takes all of a run's patience
		if strings.Contains(question.Input, "what fails") {
			return "", errors.New("the model is silent")
		}
		return likes(question)
	})
	for range 1 + len(others) + failing {
		_, _ = engine.UpdateGraph(t.Context(), patience)
	}
	for _, other := range others {
		b.wantLinked(other, 1)
	}
	b.wantLinked(b.user, 20)
	testkit.Eventually(t, "the user's next turn", func() bool { // on a busy machine a run's patience may end before its first turn
		must(engine.UpdateGraph(t.Context(), patience))(t)
		return b.count("memories where graph_version is not null") > 20+len(others)
	})
	b.wantLinked(b.user, 40)
}

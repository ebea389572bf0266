package main

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// attacks are what befalls the system beside the kills: one a round, by turns. Their names are rows of the table.
var attacks = []struct {
	name string
	play func(*harness, context.Context)
}{
	{"attack: accounts deleted", (*harness).unregister},
	{"attack: user poisoned", (*harness).poison},
	{"attack: process frozen", (*harness).freeze},
	{"attack: switch flipped", (*harness).flip},
}

func (h *harness) attack(ctx context.Context, n int) {
	attack := attacks[n%len(attacks)]
	defer kit.In("%s", attack.name)
	h.struck[attack.name]++
	attack.play(h, ctx)
}

func (h *harness) anyone() *people.Person { return h.people[h.chance.IntN(len(h.people))] }

// unregister deletes three accounts whose people talk.
func (h *harness) unregister(ctx context.Context) {
	for range 3 {
		if err := h.anyone().Unregister(ctx); err != nil {
			h.report(people.WatchedBroken("deletable", err.Error()))
		}
		_ = kit.Sleep(ctx, h.upTo(shortestTalk))
	}
}

// poison leaves a counter at its limit, as an import may. The user's work goes on, and everybody else's.
func (h *harness) poison(ctx context.Context) {
	kit.Must(h.system.Admin.Exec(ctx, `update public.memories set access_count = 2147483647 where user_id = $1`, h.anyone().Account()))
}

// longestLease is after how long a process that does nothing has lost all that it held.
const longestLease = 25 * time.Second

// freeze stops a process until it has lost its leases, while the others are killed; then it goes on where it was. A server then
// reads what was sent to it, also messages that were sent again and deleted meanwhile.
func (h *harness) freeze(context.Context) {
	if h.frozen != nil {
		return
	}
	h.frozen, h.thaws = h.system.Parts[h.chance.IntN(len(h.system.Parts))], time.Now().Add(longestLease)
	if h.frozen.Serves() {
		h.record.Frozen(h.frozen.URL(), longestLease)
	}
	frozen := h.frozen.Process
	kit.Check(frozen.Signal(syscall.SIGSTOP))
	time.AfterFunc(longestLease, func() { _ = frozen.Signal(syscall.SIGCONT) }) // what waits for its locks may be this harness
}

// thaw waits until no process is frozen, or just looks.
func (h *harness) thaw(ctx context.Context, wait bool) {
	if h.frozen != nil && wait {
		_ = kit.Sleep(ctx, time.Until(h.thaws))
	}
	if time.Now().After(h.thaws) {
		h.frozen = nil
	}
}

// notFrozen leaves out the frozen process, which is to go on.
func (h *harness) notFrozen(parts []*people.Part) []*people.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p *people.Part) bool { return p == h.frozen })
}

// flip switches a user's memories, or a chat's, off while a model is asked, and on again.
func (h *harness) flip(ctx context.Context) {
	on, err := h.anyone().ForgetWhile(ctx, h.chance.IntN(2) == 0)
	if err == nil {
		_ = kit.Sleep(ctx, time.Second) // long enough for most answers
		err = on()
	}
	kit.Check(err)
}

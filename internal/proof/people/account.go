package people

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// account is what the devices of a user share. Another one takes its place when it is deleted.
type account struct {
	mu    sync.Mutex
	id    uuid.UUID
	token string
}

// Unregister deletes the account of the person and of all other devices, as the auth server does, and makes a new one. They talk
// meanwhile, and begin again when they notice.
func (p *Person) Unregister(ctx context.Context) (err error) {
	defer kit.Catch(&err)
	p.account.mu.Lock()
	gone := p.account.id
	p.account.mu.Unlock()
	p.record.leaving(gone, asked)
	kit.Check(pgx.BeginFunc(ctx, p.system.Admin, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "set local role supabase_auth_admin")
		if err == nil {
			_, err = tx.Exec(ctx, "delete from auth.users where id = $1", gone)
		}
		return err
	}))
	p.record.leaving(gone, done)
	id, token, err := kit.NewUser(ctx, p.system.Admin)
	kit.Check(err)
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	p.account.id, p.account.token = id, token
	return nil
}

// Account returns the id of the account that the person has now.
func (p *Person) Account() uuid.UUID {
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	return p.account.id
}

// ForgetWhile switches the memories of the person off, or those of a chat, as a phone does, while a model is asked what to remember of
// it, if that is soon. It returns what switches them on again.
func (p *Person) ForgetWhile(ctx context.Context, ofChat bool) (on func() error, err error) {
	defer kit.Catch(&err)
	user := p.Account()
	chat := p.record.awaitReading(ctx, user)
	if !ofChat {
		chat = uuid.Nil
	}
	kit.Check(p.system.remember(ctx, user, chat, false))
	kit.Must(p.system.Admin.Exec(ctx, "insert into crash.pauses (user_id, chat_id) values ($1, $2)", user, orNull(chat)))
	return func() error {
		_, err := p.system.Admin.Exec(ctx, "update crash.pauses set on_at = clock_timestamp() where user_id = $1 and on_at is null", user)
		return errors.Join(err, p.system.remember(ctx, user, chat, true))
	}, nil
}

// remember switches a user's memories, or a chat's.
func (s *System) remember(ctx context.Context, user, chat uuid.UUID, on bool) error {
	return pgx.BeginFunc(ctx, s.Admin, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select set_config('request.jwt.claims', json_build_object('sub', $1::text)::text, true),
			set_config('role', 'authenticated', true)`, user)
		switch {
		case err != nil:
		case chat != uuid.Nil:
			_, err = tx.Exec(ctx, "update public.chats set remember = $2 where id = $1", chat, on)
		default:
			_, err = tx.Exec(ctx, `insert into public.memory_users (user_id, enabled) values ($1, $2)
				on conflict (user_id) do update set enabled = excluded.enabled`, user, on)
		}
		return err
	})
}

// follow begins again where the account was deleted.
func (p *Person) follow() {
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	if p.ID != p.account.id {
		p.ID, p.Token, p.chats = p.account.id, p.account.token, nil
	}
}

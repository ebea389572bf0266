package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Issuer is one beside the project's own Supabase Auth whose users are let in (AUTH_ISSUERS).
type Issuer struct {
	// Name is the iss of its tokens, to the letter. One that ends with /auth/v1 is another project's Supabase Auth.
	Name string
	// KeySetURL is where its keys are; "" for where its discovery document says (OpenID Connect Discovery, 4).
	KeySetURL string
	// Audience has to be in aud; "" asks for none.
	Audience string
}

// CheckURL fails for what is no address of an issuer or of keys.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want http(s)://host, without a user, query or fragment")
	}
	return nil
}

// ForeignUser is the id of a user of an issuer that is not Supabase Auth: a UUIDv8 (RFC 9562) of both texts, as in
// throughline.foreign_user.
func ForeignUser(issuer, subject string) uuid.UUID {
	digest := sha256.Sum256([]byte(issuer + "\n" + subject))
	id := uuid.UUID(digest[:16])
	id[6], id[8] = 0x80|id[6]&0x0f, 0x80|id[8]&0x3f
	return id
}

// UserOf is the user of a sub of an issuer. It fails for a sub that tokens of the issuer cannot have.
func UserOf(issuer, subject string) (uuid.UUID, error) {
	return (&source{Issuer: Issuer{Name: issuer}}).user(subject)
}

// source is whose tokens are checked, and how.
type source struct {
	Issuer
	// home is the project itself: its secret is good, too.
	home bool
	keys *keySet
}

// supabase reports whether the tokens are those of a Supabase Auth, or minted as if they were: their sub is the user's id.
func (s *source) supabase() bool { return s.home || strings.HasSuffix(s.Name, "/auth/v1") }

func (s *source) user(subject string) (uuid.UUID, error) {
	if !s.supabase() {
		if n := utf8.RuneCountInString(subject); n < 1 || n > maxTextClaim || strings.ContainsRune(subject, 0) {
			return uuid.Nil, errForeignUser
		}
		return ForeignUser(s.Name, subject), nil
	}
	user, err := uuid.Parse(subject)
	// Parse accepts other spellings too, but one user must have one name.
	if err != nil || user == uuid.Nil || user.String() != subject {
		return uuid.Nil, errNoUser
	}
	return user, nil
}

// sources returns the home project, and the issuers by name.
func sources(ctx context.Context, settings Settings) (home *source, listed map[string]*source, err error) {
	home, listed = &source{home: true, Issuer: Issuer{Audience: authenticated}}, map[string]*source{}
	if settings.ProjectURL != "" {
		if err := CheckURL(settings.ProjectURL); err != nil {
			return nil, nil, fmt.Errorf("project URL: %w", err)
		}
		home.Name = strings.TrimRight(settings.ProjectURL, "/") + "/auth/v1"
		home.keys = newKeySet(ctx, home.Name+"/.well-known/jwks.json", "", settings)
	}
	for _, issuer := range settings.Issuers {
		if issuer.Audience == "" {
			settings.Logger.Info("tokens of an issuer are good for any audience", "issuer", issuer.Name)
		}
		keys, discovered := issuer.KeySetURL, ""
		if keys == "" {
			keys, discovered = strings.TrimRight(issuer.Name, "/")+"/.well-known/openid-configuration", issuer.Name
		}
		listed[issuer.Name] = &source{Issuer: issuer, keys: newKeySet(ctx, keys, discovered, settings)}
	}
	return home, listed, nil
}

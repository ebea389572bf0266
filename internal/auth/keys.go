package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	// renewEvery is how often the key set is fetched again, and so how long a withdrawn key is still good.
	renewEvery = 10 * time.Minute
	// unknownPause is the least time between two fetches for unknown keys.
	unknownPause = 30 * time.Second
	// coldPause is the same while there is no set. It is short, because every request fails then.
	coldPause    = 5 * time.Second
	fetchTimeout = 5 * time.Second

	maxKeySetBytes = 64 << 10
	minRSABits     = 2048
	maxRSABits     = 8192 // larger keys make each check slow
)

// keySet is an issuer's published keys. The library fetches, parses and renews them; while the endpoint is down, the
// stored ones stay valid. This type sets the pace: one fetch at a time, never on a request's context, and few for unknown keys.
type keySet struct {
	// open makes the first fetch, and begins to renew.
	open   func() (keyfunc.Keyfunc, error)
	paced  *rate.Limiter // fetches for unknown keys
	flight singleflight.Group
	empty  atomic.Bool // the last answer was a set without keys
	// discovered is the issuer whose discovery document is fetched, and names the address of the set; "" for none.
	discovered string
}

// newKeySet returns a key set that is fetched when the first token needs it, and renewed until ctx ends. Its address is that of the
// set, or of the discovery document of an issuer.
func newKeySet(ctx context.Context, address, discovered string, settings Settings) *keySet {
	s := &keySet{paced: rate.NewLimiter(rate.Every(coldPause), 1), discovered: discovered}
	failed := func(string) func(context.Context, error) {
		return func(_ context.Context, err error) { settings.Logger.Warn("fetching the key set failed", "error", err) }
	}
	s.open = sync.OnceValues(func() (keyfunc.Keyfunc, error) {
		s.paced.Allow()
		return keyfunc.NewDefaultOverrideCtx(ctx, []string{address}, keyfunc.Override{
			Client: s.client(settings.HTTPClient), HTTPTimeout: fetchTimeout, RateLimitWaitMax: fetchTimeout,
			RefreshErrorHandlerFunc: failed, RefreshInterval: renewEvery, RefreshUnknownKID: rate.NewLimiter(rate.Inf, 0),
		})
	})
	return s
}

// find returns the key that a token names. Its errors are errUnknownKey and NotReady.
func (s *keySet) find(ctx context.Context, token *jwt.Token) (crypto.PublicKey, error) {
	keys, err := s.open()
	if err != nil {
		return nil, notReady(errNoKeys, err)
	}
	key, stored := named(ctx, keys, token)
	if key == nil {
		_, _, _ = s.flight.Do("", func() (any, error) {
			if s.paced.Allow() {
				_, _ = keys.KeyfuncCtx(context.WithoutCancel(ctx))(token) // fetches for a kid that is not there; a failure is logged
			}
			return nil, nil
		})
		key, stored = named(ctx, keys, token)
	}
	switch {
	case key != nil:
		return key, nil
	case stored == 0 && !s.empty.Load():
		return nil, notReady(errNoKeys, errors.New("the key set could not be fetched yet"))
	}
	return nil, errUnknownKey
}

// loaded fails while there is no set yet, and asks for it.
func (s *keySet) loaded(ctx context.Context) error {
	keys, err := s.open()
	if err == nil {
		if _, stored := named(ctx, keys, anyToken); stored > 0 {
			return nil
		}
	}
	if _, err = s.find(ctx, anyToken); errors.Is(err, errUnknownKey) {
		return nil
	}
	return err
}

// anyToken names no key.
var anyToken = &jwt.Token{Method: jwt.SigningMethodES256, Header: map[string]any{"alg": "ES256", "kid": "none"}}

// named returns the key that a token names, and how many are stored. A token without a kid names the only key of its algorithm.
func named(ctx context.Context, keys keyfunc.Keyfunc, token *jwt.Token) (found crypto.PublicKey, stored int) {
	kid, anonymous := token.Header["kid"], token.Header["kid"] == nil
	all, _ := keys.Storage().KeyReadAll(ctx) // is in memory
	for _, key := range all {
		published := key.Marshal()
		named := anonymous || kid == published.KID
		fits := (published.USE == "" || published.USE == "sig") && (published.ALG == "" || published.ALG.String() == token.Method.Alg())
		switch {
		case !named || !fits || !mayVerify(token.Method, key.Key()):
		case found != nil: // it is not clear which
			return nil, len(all)
		default:
			found = key.Key()
		}
	}
	return found, len(all)
}

// mayVerify reports whether a key is one of its algorithm, and strong enough.
func mayVerify(method jwt.SigningMethod, key any) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return method == jwt.SigningMethodES256 && k.Curve == elliptic.P256()
	case *rsa.PublicKey:
		return method == jwt.SigningMethodRS256 && k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
	}
	return false
}

// client returns a client that takes keys from the issuer's address only, and only a key set for one.
func (s *keySet) client(base *http.Client) *http.Client {
	client := http.Client{}
	if base != nil {
		client = *base
	}
	transport := cmp.Or(client.Transport, http.DefaultTransport)
	client.Transport = roundTrip(func(request *http.Request) (*http.Response, error) {
		if s.discovered != "" {
			address, err := s.discover(transport, request)
			if err != nil {
				return nil, err
			}
			request = request.Clone(request.Context())
			request.URL, request.Host = address, ""
		}
		response, err := transport.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusOK {
			return response, err
		}
		if err := s.check(response); err != nil {
			return nil, err
		}
		return response, nil
	})
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// discover returns where an issuer has its keys, as its discovery document says each time that they are fetched: the
// address may change, and an issuer that is away now may be there later.
func (s *keySet) discover(transport http.RoundTripper, request *http.Request) (*url.URL, error) {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	var document struct {
		Issuer  string `json:"issuer"`
		KeysURI string `json:"jwks_uri"`
	}
	if _, err = readJSON(response, &document); err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("discovery: status %d, or no document", response.StatusCode)
	}
	address, err := url.Parse(document.KeysURI)
	switch {
	case document.Issuer != s.discovered:
		return nil, errors.New("discovery: the document is another issuer's")
	case err != nil || CheckURL(document.KeysURI) != nil || request.URL.Scheme == "https" && address.Scheme != "https":
		return nil, errors.New("discovery: no address of keys that is as safe as the issuer's")
	}
	return address, nil
}

// readJSON reads an answer of bounded size.
func readJSON(response *http.Response, into any) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxKeySetBytes))
	_ = response.Body.Close() // it was read, or is not needed
	if err != nil {
		return nil, err
	}
	return body, json.Unmarshal(body, into)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// check bounds an answer. One without a list of keys is an error: the library would take it for an empty set, and forget the
// keys that it has.
func (s *keySet) check(response *http.Response) error {
	var published struct {
		Keys []json.RawMessage `json:"keys"`
	}
	body, err := readJSON(response, &published)
	if err != nil || published.Keys == nil {
		return errors.New("key set: the answer has no list of keys")
	}
	s.empty.Store(len(published.Keys) == 0)
	s.paced.SetLimit(rate.Every(unknownPause))
	response.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

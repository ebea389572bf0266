package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

// forge builds a token by hand: header and body as given, HS256 over them with key.
func forge(t testing.TB, header, body string, key []byte) string {
	signed := b64([]byte(header)) + "." + b64([]byte(body))
	signature, err := jwt.SigningMethodHS256.Sign(signed, key)
	require.NoError(t, err)
	return "Bearer " + signed + "." + b64(signature)
}

func publicPEM(t testing.TB, key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// quotable is what RFC 6750 lets a description hold, which is a quoted string of a header.
var quotable = regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]*$`)

type attack struct {
	name   string
	header string
	want   fault.Code // "" stands for BadJWT
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	for kind, client := range map[string]string{"session": "", "token of an OAuth client": oauthClient} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, ecJWK(t, "ec", ecKey()), rsaJWK("rsa", &rsaKey().PublicKey))
			p.client = client
			testAttacks(t, p)
		})
	}
}

func testAttacks(t *testing.T, p *project) {
	t.Helper()
	v := p.verifier(t)
	attacks := headerAttacks(t, p)
	attacks = append(attacks, algorithmAttacks(t, p)...)
	attacks = append(attacks, claimAttacks(t, p)...)
	attacks = append(attacks, spellingAttacks(t, p)...)
	attacks = append(attacks, signatureAttacks(t, p)...)
	attacks = append(attacks, bodyAttacks(t, p)...)
	require.Truef(t, len(attacks) >= 140, "only %d attacks", len(attacks))
	// The message is one sentence per code, for any fault.
	sentences := map[fault.Code]string{
		fault.NoAuthorization: "The request carries no access token.", fault.SessionExpired: "The session has expired; refresh it and try again.",
		fault.BadJWT: "The access token is not valid.",
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			want := a.want
			if want == "" {
				want = fault.BadJWT
			}
			got, err := v.Verify(t.Context(), a.header)
			refused, ok := errors.AsType[*fault.Error](err)
			assert.Truef(t, ok && refused.Code == want && refused.Message == sentences[want] && refused.Details == nil, "got %v, want %s", err, want)
			assert.Equal(t, (Principal{}), got, "refused, yet a principal")
			if why, ok := errors.AsType[*RefusalError](err); !ok || !quotable.MatchString(why.Description) {
				t.Errorf("%+v in %v", why, err)
			}
		})
	}
}

// headerAttacks are about the Authorization header and the shape of the token.
func headerAttacks(t *testing.T, p *project) []attack {
	good := hs256(t, p.good())
	token := strings.TrimPrefix(good, "Bearer ")
	parts := strings.Split(token, ".")
	lastBits := token[:len(token)-1] + string(sibling(token[len(token)-1]))
	return []attack{
		{"no header", "", fault.NoAuthorization},
		{"blank header", "  ", fault.NoAuthorization},
		{"scheme alone", "Bearer", ""},
		{"scheme and blanks", "Bearer   ", ""},
		{"no scheme", token, ""},
		{"basic", "Basic " + token, ""},
		{"scheme glued on", "Bearer:" + token, ""},
		{"tab after the scheme", "Bearer\t" + token, ""},
		{"two tokens", good + " " + token, ""},
		{"line break in the token", "Bearer " + token[:10] + "\n" + token[10:], ""},
		{"padding", good + "=", ""},
		{"spare bits of the last character", "Bearer " + lastBits, ""},
		{"standard base64 alphabet", "Bearer " + strings.Replace(token, parts[2], "+/"+parts[2][2:], 1), ""},
		{"one part", "Bearer " + parts[0], ""},
		{"two parts", "Bearer " + parts[0] + "." + parts[1], ""},
		{"four parts", good + "." + parts[2], ""},
		{"five parts, like JWE", good + "." + parts[0] + "." + parts[1], ""},
		{"signature left out", "Bearer " + parts[0] + "." + parts[1] + ".", ""},
		{"signature cut", good[:len(good)-4], ""},
		{"over the size bound", hs256(t, with(p.good(), map[string]any{"pad": strings.Repeat("x", maxTokenBytes)})), ""},
		{"publishable key", "Bearer sb_publishable_abcdefghijklmnopqrstuv_12345678", ""},
		{"secret key", "Bearer sb_secret_abcdefghijklmnopqrstuv_12345678", ""},
		{"body of another token", "Bearer " + parts[0] + "." + b64([]byte(`{"sub":"`+uuid.NewString()+`"}`)) + "." + parts[2], ""},
	}
}

// sibling is a base64url character that differs from c in its lowest bit alone, which is a spare one
// at the end of 32 bytes.
func sibling(c byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return alphabet[strings.IndexByte(alphabet, c)^1]
}

// algorithmAttacks use wrong signers, keys and algorithms.
func algorithmAttacks(t *testing.T, p *project) []attack {
	good := p.good()
	body, err := json.Marshal(good)
	require.NoError(t, err)
	ecHeader := func(changes map[string]any) string {
		header := with(map[string]any{"kid": "ec"}, changes)
		return "Bearer " + sign(t, jwt.SigningMethodES256, ecKey(), header, good)
	}
	unsigned := func(alg string) string {
		return "Bearer " + b64([]byte(`{"alg":"`+alg+`","typ":"JWT"}`)) + "." + b64(body) + "."
	}
	hs := func(method jwt.SigningMethod, key []byte, kid string) string {
		return "Bearer " + sign(t, method, key, map[string]any{"kid": kid}, good)
	}
	own := ecJWK(t, "own", otherKey())
	p384 := newECKey(elliptic.P384())
	rsaWith := func(method jwt.SigningMethod, kid string) string {
		return "Bearer " + sign(t, method, rsaKey(), map[string]any{"kid": kid}, good)
	}
	ownKey := func(extra map[string]any) string {
		return "Bearer " + sign(t, jwt.SigningMethodES256, otherKey(), with(extra, map[string]any{"kid": "own"}), good)
	}
	point, err := ecKey().PublicKey.Bytes()
	require.NoError(t, err)
	zeroes := b64(make([]byte, 64))
	return []attack{
		{"alg none", unsigned("none"), ""},
		{"alg NONE with a signature", unsigned("NONE") + "AAAA", ""},
		{"alg unknown", unsigned("HS257"), ""},
		{"alg in lower case", forge(t, `{"alg":"hs256"}`, string(body), secret), ""},
		{"alg missing", forge(t, `{"typ":"JWT"}`, string(body), secret), ""},
		{"alg twice, none last", forge(t, `{"alg":"HS256","alg":"none"}`, string(body), secret), ""},
		{"header null", forge(t, `null`, string(body), secret), ""},
		{"header no JSON", forge(t, `{`, string(body), secret), ""},
		{"body null", forge(t, `{"alg":"HS256"}`, `null`, secret), ""},
		{"body a list", forge(t, `{"alg":"HS256"}`, `[]`, secret), ""},
		{"garbage after the body", forge(t, `{"alg":"HS256"}`, string(body)+`{}`, secret), ""},
		{"HS256, wrong secret", hs(jwt.SigningMethodHS256, []byte("another secret"), "x"), ""},
		{"HS256, empty secret", hs(jwt.SigningMethodHS256, []byte{}, "x"), ""},
		{"HS256, public key as PEM", hs(jwt.SigningMethodHS256, publicPEM(t, ecKey()), "ec"), ""},
		{"HS256, public key as point", hs(jwt.SigningMethodHS256, point, "ec"), ""},
		{"HS256, RSA modulus", hs(jwt.SigningMethodHS256, rsaKey().N.Bytes(), "rsa"), ""},
		{"HS512 with the right secret", hs(jwt.SigningMethodHS512, secret, "x"), ""},
		{"ES256, key of somebody else", es256(t, "ec", otherKey(), good), ""},
		{"ES256, unknown kid", es256(t, "nobody", ecKey(), good), ""},
		{"ES256, kid of the RSA key", es256(t, "rsa", ecKey(), good), ""},
		{"ES256, kid a number", ecHeader(map[string]any{"kid": 7}), ""},
		{"ES256, signature of zeroes", withSignature(es256(t, "ec", ecKey(), good), zeroes), ""},
		{"ES384", "Bearer " + sign(t, jwt.SigningMethodES384, p384, map[string]any{"kid": "ec"}, good), ""},
		{"RS256, kid of the EC key", rsaWith(jwt.SigningMethodRS256, "ec"), ""},
		{"RS512 with the right key", rsaWith(jwt.SigningMethodRS512, "rsa"), ""},
		{"PS256 with the right key", rsaWith(jwt.SigningMethodPS256, "rsa"), ""},
		{"own key in jwk", ownKey(map[string]any{"jwk": own}), ""},
		{"own key at jku", ownKey(map[string]any{"jku": "http://127.0.0.1:1/jwks.json"}), ""},
		{"own key at x5u", ownKey(map[string]any{"x5u": "http://127.0.0.1:1/x.pem"}), ""},
		{"own key in x5c", ownKey(map[string]any{"x5c": []string{"AAAA"}}), ""},
		{"good key, jku beside it", ecHeader(map[string]any{"jku": p.url}), ""},
		{"good key, crit", ecHeader(map[string]any{"crit": []string{"exp"}}), ""},
		{"good key, b64 false", ecHeader(map[string]any{"b64": false}), ""},
	}
}

func withSignature(header, signature string) string {
	return header[:strings.LastIndexByte(header, '.')+1] + signature
}

// claimAttacks are well signed tokens that are no user's, not of here, or not of now.
func claimAttacks(t *testing.T, p *project) []attack {
	changed := func(changes map[string]any) string { return hs256(t, with(p.good(), changes)) }
	unix := func(after time.Duration) int64 { return clockStart.Add(after).Unix() }
	attacks := []attack{
		{"expired", changed(map[string]any{"exp": unix(-leeway)}), fault.SessionExpired},
		{"expired long ago", changed(map[string]any{"exp": 0}), fault.SessionExpired},
		{"expired before 1970", changed(map[string]any{"exp": -1}), fault.SessionExpired},
		{"expired, wrong secret", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte("x"), nil, with(p.good(), map[string]any{"exp": 1})), ""},
		{"expired, wrong issuer", changed(map[string]any{"exp": 1, "iss": "https://x.example/auth/v1"}), ""},
		{"expired service_role", changed(map[string]any{"exp": 1, "role": "service_role"}), ""},
		{"expired, unknown kid", es256(t, "gone", ecKey(), with(p.good(), map[string]any{"exp": 1})), ""},
		{"expired and not valid yet", changed(map[string]any{"exp": 1, "nbf": unix(time.Hour)}), ""},
		{"anon key", changed(map[string]any{"role": "anon", "aud": nil, "sub": nil, "iss": "supabase", "ref": "abc"}), ""},
		{"service_role key", changed(map[string]any{"role": "service_role", "aud": nil, "sub": nil, "iss": "supabase"}), ""},
		{"role in the wrong place", changed(map[string]any{"role": nil, "user_metadata": map[string]any{"role": authenticated}}), ""},
	}
	for name, values := range map[string][]any{
		"exp":  {nil, "soon", "1795000000", true, 1e300, -1e300, clockStart.UnixMilli(), []any{1}},
		"nbf":  {unix(leeway + time.Second), "now", clockStart.UnixMilli()},
		"iat":  {unix(leeway + time.Second), "now", clockStart.UnixMilli(), []any{1}},
		"role": {nil, "", "anon", "service_role", "authenticated ", "Authenticated", "postgres", "throughline_app", []string{authenticated}},
		"aud":  {nil, "", "anon", []string{}, []string{"x"}, []any{authenticated, 1}, map[string]any{authenticated: true}, "authenticated,anon"},
		"sub": {nil, "", "me", 1, uuid.Nil.String(), strings.ToUpper(userID.String()), "{" + userID.String() + "}", "urn:uuid:" + userID.String(),
			strings.ReplaceAll(userID.String(), "-", ""), userID.String() + "\n", []string{userID.String()}},
		"iss":          {nil, "", p.url, p.url + "/auth/v1/", "https://evil.example/auth/v1", "supabase", 1, []string{p.url + "/auth/v1"}},
		"session_id":   {1, "a\x00b", strings.Repeat("s", 256), []any{}},
		"is_anonymous": {"false", 0},
		"aal":          {2, "ä"},
		"client_id":    {map[string]any{}, 1, true, []string{oauthClient}, "a\nb", strings.Repeat("c", 256)},
	} {
		for _, value := range values {
			text, err := json.Marshal(value)
			require.NoError(t, err)
			label := name + " " + string(text[:min(len(text), 48)])
			attacks = append(attacks, attack{name: label, header: changed(map[string]any{name: value})})
		}
	}
	// The ID token that OpenID Connect adds says who signed in. It is signed with the same key.
	identity := map[string]any{"aud": oauthClient, "client_id": oauthClient, "auth_time": clockStart.Unix(), "role": nil, "session_id": nil}
	attacks = append(attacks, attack{name: "an ID token", header: changed(identity)})
	caps := maps.Clone(p.good())
	caps["SUB"], caps["sub"] = caps["sub"], nil
	return append(attacks, attack{name: "names in another case", header: changed(caps)})
}

// spellingAttacks are good tokens in a form that no client sends.
func spellingAttacks(t *testing.T, p *project) []attack {
	good := hs256(t, p.good())
	token := strings.TrimPrefix(good, "Bearer ")
	return []attack{
		{"full-width scheme", "Ｂｅａｒｅｒ " + token, ""},
		{"zero-width space in the token", "Bearer " + token[:20] + "\u200b" + token[20:], ""},
		{"CRLF and a header", good + "\r\nX-User: admin", ""},
		{"dot at the end", good + ".", ""},
		{"dot at the beginning", "Bearer ." + token, ""},
		{"empty parts", "Bearer ..", ""},
		{"one megabyte", good + strings.Repeat("A", 1<<20), ""},
		{"one megabyte of dots", "Bearer " + strings.Repeat(".", 1<<20), ""},
		{"as a query parameter would be", "access_token=" + token, ""},
	}
}

// signatureAttacks are about headers that choose rules, and about what stands where the signature should.
func signatureAttacks(t *testing.T, p *project) []attack {
	good := p.good()
	body, err := json.Marshal(good)
	require.NoError(t, err)
	unsigned := func(header string) string { return "Bearer " + b64([]byte(header)) + "." + b64(body) + "." }
	headed := func(header string) string { return forge(t, header, string(body), secret) }
	withKid := func(kid any) string {
		return "Bearer " + sign(t, jwt.SigningMethodES256, otherKey(), map[string]any{"kid": kid}, good)
	}
	es := es256(t, "ec", ecKey(), good)
	signature := func(r, s *big.Int) string {
		return withSignature(es, b64(append(r.FillBytes(make([]byte, 33))[1:], s.FillBytes(make([]byte, 33))[1:]...)))
	}
	zero, one, order := new(big.Int), big.NewInt(1), ecKey().Params().N
	r, s := signatureOf(t, es)
	der, err := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	require.NoError(t, err)
	hmacWith := func(key []byte, kid string) string {
		return "Bearer " + sign(t, jwt.SigningMethodHS256, key, map[string]any{"kid": kid}, good)
	}
	return []attack{
		{"alg none, signed all the same", headed(`{"alg":"none"}`), ""},
		{"alg a number", headed(`{"alg":256}`), ""},
		{"alg under another case", headed(`{"ALG":"HS256"}`), ""},
		{"kid twice", headed(`{"alg":"HS256","kid":"a","kid":"b"}`), ""},
		{"EdDSA", withSignature(unsigned(`{"alg":"EdDSA","kid":"ec"}`), b64(make([]byte, 64))), ""},
		{"ES256K", withSignature(unsigned(`{"alg":"ES256K","kid":"ec"}`), b64(make([]byte, 64))), ""},
		{"HS256, public RSA key as DER", hmacWith(der, "rsa"), ""},
		{"HS256, published key set", hmacWith([]byte(p.body), "ec"), ""},
		{"kid a list", withKid([]string{"ec"}), ""},
		{"kid null", withKid(nil), ""},
		{"JWE header", "Bearer " + b64([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "..AAAA.AAAA.AAAA", ""},
		{"JWE's algorithm on a signed token", headed(`{"alg":"A128KW","enc":"A256GCM"}`), ""},
		{"b64 false, declared critical", headed(`{"alg":"HS256","b64":false,"crit":["b64"]}`), ""},
		{"crit empty", headed(`{"alg":"HS256","crit":[]}`), ""},
		{"ES256, r zero", signature(zero, s), ""},
		{"ES256, s zero", signature(r, zero), ""},
		{"ES256, r and s one", signature(one, one), ""},
		{"ES256, r the order", signature(order, s), ""},
		{"ES256, s the order", signature(r, order), ""},
		{"ES256, r and s exchanged", signature(s, r), ""},
		{"ES256, 63 bytes", withSignature(es, b64(make([]byte, 63))), ""},
		{"ES256, a byte more", es + "AA", ""},
		{"ES256, no signature", withSignature(es, ""), ""},
		{"ES256, other case of the header", es256(t, "EC", ecKey(), good), ""},
	}
}

// bodyAttacks are signed by the project, and hold no claims that could be read in one way alone.
func bodyAttacks(t *testing.T, p *project) []attack {
	good, err := json.Marshal(p.good())
	require.NoError(t, err)
	body := func(text string) string { return forge(t, `{"alg":"HS256","typ":"JWT"}`, text, secret) }
	more := func(text string) string { return body(strings.TrimSuffix(string(good), "}") + "," + text + "}") }
	nested := strings.TrimPrefix(hs256(t, p.good()), "Bearer ")
	deep := strings.Repeat("[", 4000) + strings.Repeat("]", 4000)
	return []attack{
		{"sub twice", more(`"sub":"` + uuid.NewString() + `"`), ""},
		{"sub twice, one name escaped", more(`"\u0073ub":"` + userID.String() + `"`), ""},
		{"role twice", more(`"role":"authenticated"`), ""},
		{"exp twice", more(`"exp":4000000000`), ""},
		{"exp beyond a double", body(strings.Replace(string(good), `"exp":`, `"exp":1e999,"x":`, 1)), ""},
		{"exp an object", body(strings.Replace(string(good), `"exp":`, `"exp":{"now":1},"x":`, 1)), ""},
		{"nested token", forge(t, `{"alg":"HS256","cty":"JWT"}`, nested, secret), ""},
		{"byte order mark", body("\ufeff" + string(good)), ""},
		{"two objects", body(string(good) + string(good)), ""},
		{"invalid UTF-8 in sub", body(strings.Replace(string(good), userID.String(), userID.String()+"\xff", 1)), ""},
		{"half a surrogate in sub", body(strings.Replace(string(good), userID.String(), userID.String()+`\ud800`, 1)), ""},
		{"deep sub", body(strings.Replace(string(good), `"sub":`, `"sub":`+deep+`,"x":`, 1)), ""},
		{"deep beyond the parser", body(`{"a":` + strings.Repeat(`[`, 11_000)), ""},
		{"comment", body("/* */" + string(good)), ""},
		{"empty body", body(""), ""},
		{"anonymous flag a text", body(strings.Replace(string(good), `"is_anonymous":false`, `"is_anonymous":"true"`, 1)), ""},
	}
}

// signatureOf returns the two numbers of an ES256 signature.
func signatureOf(t *testing.T, header string) (r, s *big.Int) {
	raw, err := base64.RawURLEncoding.DecodeString(header[strings.LastIndexByte(header, '.')+1:])
	require.Truef(t, err == nil && len(raw) == 64, "%d bytes, %v", len(raw), err)
	return new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])
}

// If (r, s) is a signature, (r, order of the curve - s) is one as well (RFC 7518 asks for neither), and half of all
// honest ones have the greater. So both are valid, for the same user: nothing here distinguishes users by the text of a token.
func TestBothFormsOfASignatureAreGood(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), p.good())
	r, s := signatureOf(t, header)
	other := new(big.Int).Sub(ecKey().Params().N, s)
	first, err := v.Verify(t.Context(), header)
	require.NoError(t, err)
	second, err := v.Verify(t.Context(), withSignature(header, b64(append(r.FillBytes(make([]byte, 32)), other.FillBytes(make([]byte, 32))...))))
	second.Token = first.Token
	assert.Truef(t, err == nil && second == first, "%+v and %+v, %v", first, second, err)
}

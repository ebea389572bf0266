package auth

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// spellingAttacks are good tokens in a form that no client sends.
func spellingAttacks(t *testing.T, p *project) []attack {
	t.Helper()
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
	t.Helper()
	good := p.good()
	body, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	t.Helper()
	good, err := json.Marshal(p.good())
	if err != nil {
		t.Fatal(err)
	}
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
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(header[strings.LastIndexByte(header, '.')+1:])
	if err != nil || len(raw) != 64 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	return new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])
}

// If (r, s) is a signature, (r, order of the curve - s) is one as well (RFC 7518 asks for neither), and half of all
// honest ones have the greater. So both are valid, for the same user: nothing here distinguishes tokens by their text.
func TestBothFormsOfASignatureAreGood(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := p.verifier(t)
	header := es256(t, "ec", ecKey(), p.good())
	r, s := signatureOf(t, header)
	other := new(big.Int).Sub(ecKey().Params().N, s)
	first, err := v.Verify(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	second, err := v.Verify(t.Context(), withSignature(header, b64(append(r.FillBytes(make([]byte, 32)), other.FillBytes(make([]byte, 32))...))))
	if err != nil || second != first {
		t.Errorf("%+v and %+v, %v", first, second, err)
	}
}

package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

const (
	p256Bytes     = 32
	minRSABits    = 2048
	maxRSABits    = 8192 // larger keys make each check slow
	maxRSAExpBits = 31
)

// jwk is a published key (RFC 7517). Private parts, should a project publish them, are not read.
type jwk struct {
	Type       string    `json:"kty"`
	Use        string    `json:"use"`
	Algorithm  string    `json:"alg"`
	ID         string    `json:"kid"`
	Operations []string  `json:"key_ops"`
	Curve      string    `json:"crv"`
	X          base64URL `json:"x"`
	Y          base64URL `json:"y"`
	Modulus    base64URL `json:"n"`
	Exponent   base64URL `json:"e"`
}

// base64URL is bytes that are base64url without padding in JSON.
type base64URL []byte

// UnmarshalText decodes the text.
func (b *base64URL) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	return err
}

// publicKey is a usable key and the only algorithm that it may verify.
type publicKey struct {
	keyName
	key crypto.PublicKey
}

// keyName is how a token names its key. The id may be empty.
type keyName struct{ algorithm, id string }

// keySet is the keys that a project signs with. They are few, so a scan is enough.
type keySet []publicKey

// find returns the key of a name, nil if there is none. A name without an id needs a set with exactly one key
// of the algorithm.
func (s keySet) find(name keyName) crypto.PublicKey {
	var only crypto.PublicKey
	for _, k := range s {
		switch {
		case k.algorithm != name.algorithm:
		case name.id != "" && k.id == name.id:
			return k.key
		case name.id == "" && only != nil:
			return nil
		case name.id == "":
			only = k.key
		}
	}
	return only
}

// parseKeySet reads a JWKS. It leaves out each key that cannot verify an access token: one odd key must not make
// the others unusable. A document without "keys" is an error. An empty list is not, because projects that sign
// with their legacy secret publish that.
func parseKeySet(document []byte) (keySet, error) {
	var published struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &published); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if published.Keys == nil {
		return nil, errors.New("key set: no keys member")
	}
	set := keySet{}
	for _, raw := range published.Keys {
		if key, usable := parseKey(raw); usable {
			set = append(set, key)
		}
	}
	return set, nil
}

// parseKey returns false for a key that cannot verify an access token.
func parseKey(raw []byte) (key publicKey, usable bool) {
	var k jwk
	if json.Unmarshal(raw, &k) != nil || k.Use != "" && k.Use != "sig" || k.Operations != nil && !slices.Contains(k.Operations, "verify") {
		return publicKey{}, false
	}
	key.id = k.ID
	switch k.Type {
	case "EC":
		key.algorithm, key.key = jwt.SigningMethodES256.Alg(), k.ellipticKey()
	case "RSA":
		key.algorithm, key.key = jwt.SigningMethodRS256.Alg(), k.rsaKey()
	}
	return key, key.key != nil && (k.Algorithm == "" || k.Algorithm == key.algorithm)
}

// ellipticKey returns a P-256 key, nil if the point is not on the curve.
func (k jwk) ellipticKey() crypto.PublicKey {
	if k.Curve != "P-256" || len(k.X) != p256Bytes || len(k.Y) != p256Bytes {
		return nil
	}
	uncompressed := slices.Concat([]byte{4}, k.X, k.Y)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), uncompressed)
	if err != nil {
		return nil
	}
	return key
}

// rsaKey returns nil for a modulus or an exponent that nobody uses.
func (k jwk) rsaKey() crypto.PublicKey {
	modulus, exponent := new(big.Int).SetBytes(k.Modulus), new(big.Int).SetBytes(k.Exponent)
	if bits := modulus.BitLen(); bits < minRSABits || bits > maxRSABits || modulus.Bit(0) == 0 {
		return nil
	}
	if exponent.BitLen() < 2 || exponent.BitLen() > maxRSAExpBits || exponent.Bit(0) == 0 {
		return nil
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}
}

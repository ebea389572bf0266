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
	maxRSABits    = 8192 // a larger one makes each check slow
	maxRSAExpBits = 31
)

// jwk is a key as published (RFC 7517). Private parts, should a project publish them, are not read.
type jwk struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Algorithm  string   `json:"alg"`
	ID         string   `json:"kid"`
	Operations []string `json:"key_ops"`
	Curve      string   `json:"crv"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	Modulus    string   `json:"n"`
	Exponent   string   `json:"e"`
}

// publicKey is a usable key with the one algorithm it may verify.
type publicKey struct {
	keyName
	key crypto.PublicKey
}

// keyName is how a token names its key. The id may be empty.
type keyName struct{ algorithm, id string }

// keySet is what a project signs with: a handful of keys, so a scan is all it needs.
type keySet []publicKey

// find gives the key of a name, nil where there is none. Without an id the choice must be clear:
// exactly one key of the algorithm.
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

// parseKeySet reads a JWKS. Keys that cannot verify an access token are left out, each alone: one
// odd key must not take the others away. A document without "keys" is an error; an empty list is
// not, because a project that signs with its legacy secret publishes just that.
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
		if key, err := parseKey(raw); err == nil {
			set = append(set, key)
		}
	}
	return set, nil
}

func parseKey(raw []byte) (publicKey, error) {
	var k jwk
	if err := json.Unmarshal(raw, &k); err != nil {
		return publicKey{}, err
	}
	if k.Use != "" && k.Use != "sig" {
		return publicKey{}, fmt.Errorf("use %q", k.Use)
	}
	if k.Operations != nil && !slices.Contains(k.Operations, "verify") {
		return publicKey{}, errors.New("key_ops without verify")
	}
	parsed := publicKey{keyName: keyName{id: k.ID}}
	var err error
	switch k.Type {
	case "EC":
		parsed.algorithm = jwt.SigningMethodES256.Alg()
		parsed.key, err = k.ellipticKey()
	case "RSA":
		parsed.algorithm = jwt.SigningMethodRS256.Alg()
		parsed.key, err = k.rsaKey()
	default:
		return publicKey{}, fmt.Errorf("kty %q", k.Type)
	}
	if err == nil && k.Algorithm != "" && k.Algorithm != parsed.algorithm {
		err = fmt.Errorf("alg %q on a key for %s", k.Algorithm, parsed.algorithm)
	}
	return parsed, err
}

// ellipticKey reads a P-256 point; a point off the curve is refused.
func (k jwk) ellipticKey() (*ecdsa.PublicKey, error) {
	if k.Curve != "P-256" {
		return nil, fmt.Errorf("crv %q", k.Curve)
	}
	x, err := decodeField(k.X)
	if err != nil {
		return nil, err
	}
	y, err := decodeField(k.Y)
	if err != nil {
		return nil, err
	}
	if len(x) != p256Bytes || len(y) != p256Bytes {
		return nil, errors.New("coordinates are not 32 bytes")
	}
	uncompressed := slices.Concat([]byte{4}, x, y)
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), uncompressed)
}

func (k jwk) rsaKey() (*rsa.PublicKey, error) {
	n, err := decodeField(k.Modulus)
	if err != nil {
		return nil, err
	}
	e, err := decodeField(k.Exponent)
	if err != nil {
		return nil, err
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if bits := modulus.BitLen(); bits < minRSABits || bits > maxRSABits || modulus.Bit(0) == 0 {
		return nil, fmt.Errorf("modulus of %d bits", bits)
	}
	if exponent.BitLen() < 2 || exponent.BitLen() > maxRSAExpBits || exponent.Bit(0) == 0 {
		return nil, errors.New("unusable exponent")
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

func decodeField(text string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

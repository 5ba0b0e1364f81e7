// Package mint makes certificates for tests: a root of its own, and what it signs. Nothing of the product imports it.
//
//	root, err := mint.NewRoot("test root")
//	cert, key, err := root.Sign(mint.Leaf{Names: []string{"127.0.0.1", "gpu-1.internal"}, For: time.Hour})
package mint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Root signs certificates.
type Root struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // of its own certificate
}

// Leaf is what a certificate is to say.
type Leaf struct {
	Name  string        // common name
	Names []string      // host names and addresses that it is for; none: it is a client's
	For   time.Duration // how long it is valid from now on; it began an hour ago
}

// early is how long before now certificates begin: clocks of machines differ.
const early = time.Hour

// NewRoot makes a root that is valid for a day.
func NewRoot(name string) (*Root, error) {
	r := &Root{}
	template, err := blank(name, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	if r.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &r.key.PublicKey, r.key)
	if err != nil {
		return nil, err
	}
	r.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	r.cert, err = x509.ParseCertificate(der)
	return r, err
}

// Sign makes a certificate and its key, both PEM.
func (r *Root) Sign(l Leaf) (cert, key []byte, err error) {
	template, err := blank(l.Name, l.For)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, name := range l.Names {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, r.cert, &own.PublicKey, r.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

func blank(name string, valid time.Duration) (*x509.Certificate, error) {
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	now := time.Now()
	return &x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-early), NotAfter: now.Add(valid)}, err
}

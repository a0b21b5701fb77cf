// natscreds makes an operator with two accounts, and credentials files of their users, as nsc does: for
// NATS_FRONT=creds of server.sh.
//
//	natscreds FOLDER
//
// FOLDER gets operator.jwt and accounts.jwt for tailrace, resolver.conf for nats-server, and good.creds,
// scoped.creds (by a signing key with a template), revoked.creds, expired.creds, stranger.creds (of an
// account that nobody knows) and forged.creds (somebody else's key).
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "natscreds:", err)
		os.Exit(1)
	}
	return value
}

func public(pair nkeys.KeyPair) string { return must(pair.PublicKey()) }

func main() {
	folder := os.Args[1]
	write := func(name string, text []byte) { must(0, os.WriteFile(filepath.Join(folder, name), text, 0o600)) }
	operator, system, account := must(nkeys.CreateOperator()), must(nkeys.CreateAccount()), must(nkeys.CreateAccount())
	scope, stranger := must(nkeys.CreateAccount()), must(nkeys.CreateAccount())
	revoked := must(nkeys.CreateUser())

	claims := jwt.NewOperatorClaims(public(operator))
	claims.Name, claims.SystemAccount = "interop", public(system)
	own := must(claims.Encode(operator))
	ofSystem := jwt.NewAccountClaims(public(system))
	ofSystem.Name = "system"
	ofAccount := jwt.NewAccountClaims(public(account))
	ofAccount.Name = "app"
	ofAccount.Revoke(public(revoked))
	template := jwt.NewUserScope()
	template.Key, template.Role = public(scope), "device"
	template.Template.Pub.Allow.Add("{{name()}}.>")
	template.Template.Sub.Allow.Add("{{name()}}.>", "_INBOX.>")
	ofAccount.SigningKeys.AddScopedSigner(template)
	systemToken, accountToken := must(ofSystem.Encode(operator)), must(ofAccount.Encode(operator))
	write("operator.jwt", []byte(own))
	write("accounts.jwt", []byte(systemToken+"\n"+accountToken+"\n"))
	write("resolver.conf", fmt.Appendf(nil, "operator: %q\nsystem_account: %s\nresolver: MEMORY\nresolver_preload { %s: %s, %s: %s }\n",
		filepath.Join(folder, "operator.jwt"), public(system), public(system), systemToken, public(account), accountToken))

	credentials := func(name string, of nkeys.KeyPair, key nkeys.KeyPair, change func(*jwt.UserClaims)) {
		claims := jwt.NewUserClaims(public(key))
		claims.Name = name
		if change != nil {
			change(claims)
		}
		token := must(claims.Encode(of))
		seed := must(key.Seed())
		file := must(jwt.FormatUserConfig(token, seed))
		if name == "forged" {
			file = bytes.Replace(file, seed, must(must(nkeys.CreateUser()).Seed()), 1)
		}
		write(name+".creds", file)
	}
	user := func() nkeys.KeyPair { return must(nkeys.CreateUser()) }
	credentials("good", account, user(), nil)
	credentials("scoped", scope, user(), func(claims *jwt.UserClaims) {
		claims.IssuerAccount = public(account)
		claims.SetScoped(true)
	})
	credentials("revoked", account, revoked, nil)
	credentials("expired", account, user(), func(claims *jwt.UserClaims) { claims.Expires = time.Now().Add(-time.Hour).Unix() })
	credentials("stranger", stranger, user(), nil)
	credentials("forged", account, user(), nil)
}

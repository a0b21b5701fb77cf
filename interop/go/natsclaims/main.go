// natsclaims mints claims with github.com/nats-io/jwt and nkeys, as JSON: the vectors of the tests in
// crates/identity/src/nats_accounts.
//
//	go run ./natsclaims > ../../crates/identity/src/nats_accounts/tests/vectors.json
//
// Keys come from fixed seeds. The tokens still differ from run to run, because the library writes the current
// time into them, which the tests do not depend on: they take it from `now`.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// seed makes 32 bytes of a name.
func seed(name string) [32]byte { return sha256.Sum256([]byte(name)) }

func key(prefix nkeys.PrefixByte, name string) nkeys.KeyPair {
	s := seed(name)
	encoded := must(nkeys.EncodeSeed(prefix, s[:]))
	if prefix == nkeys.PrefixByteCurve {
		return must(nkeys.FromCurveSeed(encoded))
	}
	return must(nkeys.FromSeed(encoded))
}

func public(pair nkeys.KeyPair) string { return must(pair.PublicKey()) }

var (
	operator    = key(nkeys.PrefixByteOperator, "operator")
	operatorKey = key(nkeys.PrefixByteOperator, "operator signing")
	stranger    = key(nkeys.PrefixByteOperator, "stranger")
	account     = key(nkeys.PrefixByteAccount, "account")
	accountKey  = key(nkeys.PrefixByteAccount, "account signing")
	scopeKey    = key(nkeys.PrefixByteAccount, "account scope")
	other       = key(nkeys.PrefixByteAccount, "other account")
	third       = key(nkeys.PrefixByteAccount, "third account")
	system      = key(nkeys.PrefixByteAccount, "system account")
	user        = key(nkeys.PrefixByteUser, "user")
	server      = key(nkeys.PrefixByteServer, "server")
	curve       = key(nkeys.PrefixByteCurve, "curve")
	serviceBox  = key(nkeys.PrefixByteCurve, "service curve")
	now         = time.Now().Unix()
)

type set map[string]any

func operatorClaims(change func(*jwt.OperatorClaims)) string {
	claims := jwt.NewOperatorClaims(public(operator))
	claims.Name = "op"
	claims.SigningKeys.Add(public(operatorKey))
	claims.SystemAccount = public(system)
	change(claims)
	return must(claims.Encode(operator))
}

func accountClaims(of, signer nkeys.KeyPair, change func(*jwt.AccountClaims)) string {
	claims := jwt.NewAccountClaims(public(of))
	claims.Name = "app"
	change(claims)
	return must(claims.Encode(signer))
}

func mainAccount(claims *jwt.AccountClaims) {
	claims.Tags.Add("region:eu", "region:us")
	claims.SigningKeys.Add(public(accountKey))
	scope := jwt.NewUserScope()
	scope.Key = public(scopeKey)
	scope.Role = "device"
	scope.Template.Pub.Allow.Add("{{account-name()}}.{{name()}}.>", "t.{{tag(team)}}.{{account-tag(region)}}")
	scope.Template.Sub.Allow.Add("_INBOX_{{subject()}}.>", "a.{{account-subject()}}", "n.{{tag(none)}}")
	scope.Template.Sub.Deny.Add("secret.{{name()}}")
	scope.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 3, Expires: time.Minute}
	scope.Template.Payload = 1000
	claims.SigningKeys.AddScopedSigner(scope)
	claims.Limits.Conn = 10
	claims.Limits.Subs = 100
	claims.DefaultPermissions.Pub.Allow.Add("default.>")
	claims.Exports.Add(
		&jwt.Export{Name: "a", Subject: "public.>", Type: jwt.Stream},
		&jwt.Export{Name: "b", Subject: "private.*", Type: jwt.Service, TokenReq: true,
			ResponseType: jwt.ResponseTypeStream, ResponseThreshold: 5 * time.Second},
		&jwt.Export{Name: "c", Subject: "own.*.data", Type: jwt.Stream, AccountTokenPosition: 2},
	)
}

func userClaims(signer nkeys.KeyPair, change func(*jwt.UserClaims)) string {
	claims := jwt.NewUserClaims(public(user))
	claims.Name = "alice"
	change(claims)
	return must(claims.Encode(signer))
}

func activation(signer nkeys.KeyPair, importer nkeys.KeyPair, change func(*jwt.ActivationClaims)) string {
	claims := jwt.NewActivationClaims(public(importer))
	claims.Name = "activation"
	claims.ImportSubject = "private.*"
	claims.ImportType = jwt.Service
	change(claims)
	return must(claims.Encode(signer))
}

// importing is the claims of another account, which imports from the main one.
func importing(token string) string {
	return accountClaims(other, operator, func(claims *jwt.AccountClaims) {
		claims.Imports.Add(
			&jwt.Import{Name: "a", Subject: "public.news.*", Account: public(account), LocalSubject: "news.$1", Type: jwt.Stream},
			&jwt.Import{Name: "b", Subject: "private.one", Account: public(account), LocalSubject: "ask", Type: jwt.Service, Token: token, Share: true},
			&jwt.Import{Name: "c", Subject: jwt.Subject("own." + public(other) + ".data"), Account: public(account), Type: jwt.Stream},
		)
	})
}

func none[T any](T) {}

func deletion(signer, subject nkeys.KeyPair, accounts ...string) string {
	claims := jwt.NewGenericClaims(public(subject))
	claims.Data["accounts"] = accounts
	return must(claims.Encode(signer))
}

func response(signer nkeys.KeyPair, change func(*jwt.AuthorizationResponseClaims)) string {
	claims := jwt.NewAuthorizationResponseClaims(public(user))
	claims.Audience = public(server)
	claims.Jwt = userClaims(account, func(claims *jwt.UserClaims) { claims.Audience = "APP" })
	change(claims)
	return must(claims.Encode(signer))
}

func main() {
	nonce := "AAAAAAAAAAAAAAA"
	signature := must(user.Sign([]byte(nonce)))
	sealNonce := seed("nonce")
	sealed := must(serviceBox.SealWithRand([]byte("eyJ hello"), public(curve), bytes.NewReader(sealNonce[:])))
	keys := set{}
	for name, pair := range map[string]nkeys.KeyPair{
		"operator": operator, "operator signing": operatorKey, "stranger": stranger, "account": account,
		"account signing": accountKey, "account scope": scopeKey, "other account": other, "third account": third,
		"system account": system, "user": user, "server": server, "curve": curve, "service curve": serviceBox,
	} {
		keys[name] = public(pair)
	}
	inHour := now + 3600
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	must(0, out.Encode(set{
		"now": now, "keys": keys, "nonce": nonce, "signature": signature, "sealed": sealed,
		"operator": set{
			"plain":  operatorClaims(none[*jwt.OperatorClaims]),
			"strict": operatorClaims(func(c *jwt.OperatorClaims) { c.StrictSigningKeyUsage = true }),
		},
		"account": set{
			"main":        accountClaims(account, operator, mainAccount),
			"by_key":      accountClaims(account, operatorKey, mainAccount),
			"by_stranger": accountClaims(account, stranger, mainAccount),
			"by_itself":   accountClaims(account, account, none[*jwt.AccountClaims]),
			"expiring": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				mainAccount(c)
				c.Expires = inHour
			}),
			"revoked": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				mainAccount(c)
				c.RevokeAt(public(user), time.Unix(now, 0))
			}),
			"revoked_all_before": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				mainAccount(c)
				c.RevokeAt("*", time.Unix(now-10, 0))
			}),
			"no_bearer": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				mainAccount(c)
				c.Limits.DisallowBearer = true
			}),
			"mappings": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				c.AddMapping("a", jwt.WeightedMapping{Subject: "b"})
			}),
			"callout": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				mainAccount(c)
				c.EnableExternalAuthorization(public(user))
				c.Authorization.AllowedAccounts.Add(public(other))
				c.Authorization.XKey = public(serviceBox)
			}),
			"importing":       importing(activation(account, other, none[*jwt.ActivationClaims])),
			"importing_key":   importing(activation(accountKey, other, func(c *jwt.ActivationClaims) { c.IssuerAccount = public(account) })),
			"wrong_importer":  importing(activation(account, third, none[*jwt.ActivationClaims])),
			"wrong_exporter":  importing(activation(third, other, none[*jwt.ActivationClaims])),
			"forged_exporter": importing(activation(third, other, func(c *jwt.ActivationClaims) { c.IssuerAccount = public(account) })),
			"scoped_exporter": importing(activation(scopeKey, other, func(c *jwt.ActivationClaims) { c.IssuerAccount = public(account) })),
			"wrong_subject":   importing(activation(account, other, func(c *jwt.ActivationClaims) { c.ImportSubject = "private.two" })),
			"wrong_kind":      importing(activation(account, other, func(c *jwt.ActivationClaims) { c.ImportType = jwt.Stream })),
			"expiring_token":  importing(activation(account, other, func(c *jwt.ActivationClaims) { c.Expires = inHour })),
			"early_token":     importing(activation(account, other, func(c *jwt.ActivationClaims) { c.NotBefore = inHour })),
			"no_token":        importing(""),
			"token_revoked": accountClaims(account, operator, func(c *jwt.AccountClaims) {
				mainAccount(c)
				for _, e := range c.Exports {
					if e.TokenReq {
						e.RevokeAt(public(other), time.Unix(now+60, 0))
					}
				}
			}),
		},
		"user": set{
			"plain":    userClaims(account, none[*jwt.UserClaims]),
			"by_key":   userClaims(accountKey, func(c *jwt.UserClaims) { c.IssuerAccount = public(account) }),
			"key_only": userClaims(accountKey, none[*jwt.UserClaims]),
			"by_other": userClaims(other, func(c *jwt.UserClaims) { c.IssuerAccount = public(account) }),
			"scoped": userClaims(scopeKey, func(c *jwt.UserClaims) {
				c.IssuerAccount = public(account)
				c.SetScoped(true)
				c.Tags.Add("team:red", "team:blue", "team:*")
			}),
			"scoped_star": userClaims(scopeKey, func(c *jwt.UserClaims) {
				c.IssuerAccount = public(account)
				c.SetScoped(true)
				c.Name = "*"
			}),
			"scoped_with_permissions": userClaims(scopeKey, func(c *jwt.UserClaims) {
				c.IssuerAccount = public(account)
				c.SetScoped(true)
				c.Pub.Allow.Add("x")
			}),
			"expiring": userClaims(account, func(c *jwt.UserClaims) { c.Expires = inHour }),
			"early":    userClaims(account, func(c *jwt.UserClaims) { c.NotBefore = inHour }),
			"bearer":   userClaims(account, func(c *jwt.UserClaims) { c.BearerToken = true }),
			"src":      userClaims(account, func(c *jwt.UserClaims) { c.Src.Add("10.1.2.3/8", "2001:db8::/32") }),
			"times": userClaims(account, func(c *jwt.UserClaims) {
				c.Times = []jwt.TimeRange{{Start: "08:00:00", End: "16:00:00"}, {Start: "22:00:00", End: "02:00:00"}}
				c.Locale = "UTC"
			}),
			"zone": userClaims(account, func(c *jwt.UserClaims) {
				c.Times = []jwt.TimeRange{{Start: "00:00:00", End: "23:59:59"}}
				c.Locale = "Europe/Berlin"
			}),
			"websocket": userClaims(account, func(c *jwt.UserClaims) { c.AllowedConnectionTypes.Add("WEBSOCKET", "MQTT") }),
			"mqtt":      userClaims(account, func(c *jwt.UserClaims) { c.AllowedConnectionTypes.Add("MQTT") }),
			"proxy":     userClaims(account, func(c *jwt.UserClaims) { c.ProxyRequired = true }),
			"permissions": userClaims(account, func(c *jwt.UserClaims) {
				c.Pub.Allow.Add("a.>")
				c.Pub.Deny.Add("a.b")
				c.Sub.Allow.Add("c.* q.*")
				c.Resp = &jwt.ResponsePermission{MaxMsgs: -1, Expires: -1}
				c.Subs = 7
				c.Limits.Payload = 9
			}),
		},
		"deletion": set{
			"plain":       deletion(operator, operator, public(account), public(other)),
			"system":      deletion(operator, operator, public(system)),
			"by_stranger": deletion(stranger, stranger, public(account)),
			"for_other":   deletion(operator, operatorKey, public(account)),
		},
		"response": set{
			"plain":        response(account, none[*jwt.AuthorizationResponseClaims]),
			"other_issuer": response(other, none[*jwt.AuthorizationResponseClaims]),
			"other_user":   response(account, func(c *jwt.AuthorizationResponseClaims) { c.Subject = public(key(nkeys.PrefixByteUser, "other user")) }),
			"other_server": response(account, func(c *jwt.AuthorizationResponseClaims) {
				c.Audience = public(key(nkeys.PrefixByteServer, "other server"))
			}),
			"expired": response(account, func(c *jwt.AuthorizationResponseClaims) { c.Expires = now - 1 }),
			"error":   response(account, func(c *jwt.AuthorizationResponseClaims) { c.Jwt, c.Error = "", "no such user" }),
			"both":    response(account, func(c *jwt.AuthorizationResponseClaims) { c.Error = "no such user" }),
			"neither": response(account, func(c *jwt.AuthorizationResponseClaims) { c.Jwt = "" }),
			"inner_account": response(account, func(c *jwt.AuthorizationResponseClaims) {
				c.Jwt = userClaims(account, func(c *jwt.UserClaims) { c.Audience = "NONE" })
			}),
			"inner_issuer": response(account, func(c *jwt.AuthorizationResponseClaims) {
				c.Jwt = userClaims(other, func(c *jwt.UserClaims) { c.Audience = "APP" })
			}),
			"issuer_account": response(account, func(c *jwt.AuthorizationResponseClaims) {
				c.Jwt = userClaims(account, func(c *jwt.UserClaims) { c.Audience = "APP"; c.IssuerAccount = public(account) })
			}),
			"inner_user": response(account, func(c *jwt.AuthorizationResponseClaims) {
				claims := jwt.NewUserClaims(public(key(nkeys.PrefixByteUser, "other user")))
				claims.Audience = "APP"
				c.Jwt = must(claims.Encode(account))
			}),
			"src": response(account, func(c *jwt.AuthorizationResponseClaims) {
				c.Jwt = userClaims(account, func(c *jwt.UserClaims) { c.Audience = "APP"; c.Src.Add("10.0.0.0/8"); c.Subs = 5 })
			}),
			"in_other": response(account, func(c *jwt.AuthorizationResponseClaims) { c.Jwt = userClaims(other, none[*jwt.UserClaims]) }),
			"in_third": response(account, func(c *jwt.AuthorizationResponseClaims) { c.Jwt = userClaims(third, none[*jwt.UserClaims]) }),
			"key_named": response(account, func(c *jwt.AuthorizationResponseClaims) {
				c.Jwt = userClaims(account, func(c *jwt.UserClaims) { c.Audience = "APP"; c.Name = public(user) })
			}),
		},
	}))
}

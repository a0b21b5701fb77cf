#!/bin/bash
# Certificates for a test of TLS: certificates.sh DIR writes ca.pem, server.pem, server.key, client.pem,
# client.key. The server's is for localhost and 127.0.0.1. An authority that is thrown away signs both.
set -euo pipefail
dir=${1:?folder}
cd "$dir"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=interop authority" \
  -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.pem
sign() { # NAME EXTENSIONS
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=interop $1" -keyout "$1.sec1" -out "$1.csr"
  openssl pkcs8 -topk8 -nocrypt -in "$1.sec1" -out "$1.key"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile <(printf '%s\n' "$2") -out "$1.pem"
}
sign server $'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\nkeyUsage=digitalSignature'
sign client $'subjectAltName=email:alice@example.com\nextendedKeyUsage=clientAuth\nkeyUsage=digitalSignature'
rm -f ca.key ./*.csr ./*.sec1
# The format that Java reads.
openssl pkcs12 -export -in client.pem -inkey client.key -out client.p12 -passout pass:interop

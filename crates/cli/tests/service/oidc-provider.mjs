// An identity provider on the loopback, for tests: the certified oidc-provider, whose sign-in takes any name.
//
// node oidc-provider.mjs DIRECTORY-OF-THE-PACKAGE SECONDS-A-TOKEN-LASTS
//
// It prints its issuer when it listens, and ends with its stdin. Its clients: `machine`, which has tokens by its secret
// alone, and `thalweg`, which has none and logs people in. Its tokens are for the resource that each question names: who
// names none has one that no server takes.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [home, seconds] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(join(home, 'lib/index.js')));

const key = (kid, alg, kind, options) => {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
};

const scopes = 'storage.read:/ storage.create:/ storage.modify:/';
const device = 'urn:ietf:params:oauth:grant-type:device_code';
const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  jwks: { keys: [key('ec', 'ES256', 'ec', { namedCurve: 'P-256' }), key('rsa', 'RS256', 'rsa', { modulusLength: 2048 })] },
  scopes: ['openid', 'offline_access'],
  clients: [
    {
      client_id: 'machine',
      client_secret: 'secret-of-tests',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
    {
      client_id: 'thalweg',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: [device, 'refresh_token'],
      redirect_uris: [],
      response_types: [],
    },
  ],
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource, client) => ({
        scope: scopes,
        audience: resource,
        accessTokenFormat: 'jwt',
        // Each has a key of its own kind.
        jwt: { sign: { alg: client.clientId === 'machine' ? 'RS256' : 'ES256' } },
      }),
    },
  },
  ttl: {
    AccessToken: Number(seconds),
    ClientCredentials: Number(seconds),
    DeviceCode: 600,
    Grant: 3600,
    Interaction: 600,
    RefreshToken: 3600,
    Session: 3600,
  },
});

server.on('request', provider.callback());
console.log(issuer);
process.stdin.on('end', () => process.exit(0)).resume();

// One operation of @kubernetes/client-node at each start: node operations.mjs OPERATION ARGUMENTS-IN-JSON.
// Prints {"result": …} or {"refused": {"code", "reason"}}; "watch" prints one name a line until it is killed.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { setTimeout } from 'node:timers/promises';

const require = createRequire(`${process.env.CLIENT_MODULES}/`);
const k8s = await import(pathToFileURL(require.resolve('@kubernetes/client-node')));

const PATH = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const config = new k8s.KubeConfig();
config.loadFromDefault();
const api = config.makeApiClient(k8s.CertificatesV1Api);
const typed = (type) => k8s.setHeaderOptions('Content-Type', type);

const STRATEGIES = {
  json: k8s.PatchStrategy.JsonPatch,
  merge: k8s.PatchStrategy.MergePatch,
  strategic: k8s.PatchStrategy.StrategicMergePatch,
};

const operations = {
  create: ({ manifest }) => api.createCertificateSigningRequest({ body: manifest }),
  get: ({ name }) => api.readCertificateSigningRequest({ name }),
  async pages({ selector, limit }) {
    const pages = [];
    let token;
    do {
      const found = await api.listCertificateSigningRequest({ labelSelector: selector, limit, _continue: token });
      pages.push(found.items.map((item) => item.metadata.name));
      token = found.metadata._continue;
    } while (token);
    return pages;
  },
  replace({ manifest, subresource }) {
    const call = `replaceCertificateSigningRequest${subresource.charAt(0).toUpperCase()}${subresource.slice(1)}`;
    return api[call]({ name: manifest.metadata.name, body: manifest });
  },
  patch: ({ name, patch, kind }) =>
    api.patchCertificateSigningRequest({ name, body: patch }, typed(STRATEGIES[kind])),
  apply: ({ manifest, manager, force }) =>
    api.patchCertificateSigningRequest(
      { name: manifest.metadata.name, body: manifest, fieldManager: manager, force },
      typed(k8s.PatchStrategy.ServerSideApply),
    ),
  delete: ({ name }) => api.deleteCertificateSigningRequest({ name }),
  deleteAll: ({ selector }) => api.deleteCollectionCertificateSigningRequest({ labelSelector: selector }),
  async watch({ selector }) {
    const list = () => api.listCertificateSigningRequest({ labelSelector: selector });
    const informer = k8s.makeInformer(config, PATH, list, selector);
    informer.on('add', (found) => console.log(found.metadata.name));
    informer.on('error', async () => {
      await setTimeout(100);
      informer.start();
    });
    await informer.start();
    await new Promise(() => {});
  },
};

const [operation, parameters] = process.argv.slice(2);
try {
  const result = await operations[operation](JSON.parse(parameters));
  console.log(JSON.stringify({ result }));
} catch (error) {
  if (!(error instanceof k8s.ApiException)) throw error;
  const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
  console.log(JSON.stringify({ refused: { code: error.code, reason: status.reason } }));
}

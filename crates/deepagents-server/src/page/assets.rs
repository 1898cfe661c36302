//! The files of the page. Written by `npm run build` in `web`; not by hand.

use super::Asset;

pub(super) const ASSETS: &[Asset] = &[
    Asset {
        path: "/THIRD_PARTY.txt",
        media_type: "text/plain; charset=utf-8",
        is_hashed: false,
        identity: include_bytes!("../../page/THIRD_PARTY.txt"),
        gzip: include_bytes!("../../page/THIRD_PARTY.txt.gz"),
        brotli: include_bytes!("../../page/THIRD_PARTY.txt.br"),
    },
    Asset {
        path: "/icon.svg",
        media_type: "image/svg+xml",
        is_hashed: false,
        identity: include_bytes!("../../page/icon.svg"),
        gzip: include_bytes!("../../page/icon.svg.gz"),
        brotli: include_bytes!("../../page/icon.svg.br"),
    },
    Asset {
        path: "/",
        media_type: "text/html; charset=utf-8",
        is_hashed: false,
        identity: include_bytes!("../../page/index.html"),
        gzip: include_bytes!("../../page/index.html.gz"),
        brotli: include_bytes!("../../page/index.html.br"),
    },
    Asset {
        path: "/page/highlight-D3yTlHTu.js",
        media_type: "text/javascript; charset=utf-8",
        is_hashed: true,
        identity: include_bytes!("../../page/page/highlight-D3yTlHTu.js"),
        gzip: include_bytes!("../../page/page/highlight-D3yTlHTu.js.gz"),
        brotli: include_bytes!("../../page/page/highlight-D3yTlHTu.js.br"),
    },
    Asset {
        path: "/page/index-PBSw06c5.css",
        media_type: "text/css; charset=utf-8",
        is_hashed: true,
        identity: include_bytes!("../../page/page/index-PBSw06c5.css"),
        gzip: include_bytes!("../../page/page/index-PBSw06c5.css.gz"),
        brotli: include_bytes!("../../page/page/index-PBSw06c5.css.br"),
    },
    Asset {
        path: "/page/index-QCZAzxhW.js",
        media_type: "text/javascript; charset=utf-8",
        is_hashed: true,
        identity: include_bytes!("../../page/page/index-QCZAzxhW.js"),
        gzip: include_bytes!("../../page/page/index-QCZAzxhW.js.gz"),
        brotli: include_bytes!("../../page/page/index-QCZAzxhW.js.br"),
    },
    Asset {
        path: "/page/libesm-BerQVe3w.js",
        media_type: "text/javascript; charset=utf-8",
        is_hashed: true,
        identity: include_bytes!("../../page/page/libesm-BerQVe3w.js"),
        gzip: include_bytes!("../../page/page/libesm-BerQVe3w.js.gz"),
        brotli: include_bytes!("../../page/page/libesm-BerQVe3w.js.br"),
    },
];
